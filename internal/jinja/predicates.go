package jinja

import "unicode"

// A predicate is a Jinja test, `v is name(operand)`.
type predicate func(s *state, v, operand Value) bool

// Predicates take no operand, relations one.
var predicates, relations map[string]predicate

func init() {
	compares := func(op string) predicate {
		return func(s *state, v, operand Value) bool { return s.compares(op, v, operand) }
	}
	divides := func(s *state, v, by, rest Value) bool { return equal(s.binary("%", v, by), rest) }
	predicates = map[string]predicate{
		"odd":       func(s *state, v, _ Value) bool { return divides(s, v, int64(2), int64(1)) },
		"even":      func(s *state, v, _ Value) bool { return divides(s, v, int64(2), int64(0)) },
		"defined":   func(_ *state, v, _ Value) bool { return !isType[*undefined](v) },
		"undefined": func(_ *state, v, _ Value) bool { return isType[*undefined](v) },
		"none":      func(_ *state, v, _ Value) bool { return v == nil },
		"boolean":   func(_ *state, v, _ Value) bool { return isType[bool](v) },
		"true":      func(_ *state, v, _ Value) bool { return v == true },
		"false":     func(_ *state, v, _ Value) bool { return v == false },
		"integer":   func(_ *state, v, _ Value) bool { _, ok := toInt(v); return ok && !isType[bool](v) },
		"float":     func(_ *state, v, _ Value) bool { return isType[float64](v) },
		"number":    func(_ *state, v, _ Value) bool { return isNumber(v) },
		"string":    func(_ *state, v, _ Value) bool { return isType[Text](v) },
		"mapping":   func(_ *state, v, _ Value) bool { return isType[*Dict](v) },
		"sequence":  func(_ *state, v, _ Value) bool { return isSequence(v) },
		"iterable":  func(_ *state, v, _ Value) bool { return isIterable(v) },
		"callable":  func(_ *state, v, _ Value) bool { return isCallable(v) },
		"lower":     func(s *state, v, _ Value) bool { return isCased(s.str(v), unicode.IsLower, unicode.IsUpper) },
		"upper":     func(s *state, v, _ Value) bool { return isCased(s.str(v), unicode.IsUpper, unicode.IsLower) },
		"escaped":   func(_ *state, v, _ Value) bool { t, ok := v.(Text); return ok && t.safe },
		"filter":    func(_ *state, v, _ Value) bool { t, ok := v.(Text); return ok && filters[t.s] != nil },
		"test": func(_ *state, v, _ Value) bool {
			t, ok := v.(Text)
			return ok && (predicates[t.s] != nil || relations[t.s] != nil)
		},
	}
	relations = map[string]predicate{
		"divisibleby": func(s *state, v, by Value) bool { return divides(s, v, by, int64(0)) },
		"in":          compares("in"), "sameas": isSame,
		"==": compares("=="), "eq": compares("=="), "equalto": compares("=="), "!=": compares("!="), "ne": compares("!="),
		">": compares(">"), "gt": compares(">"), "greaterthan": compares(">"), ">=": compares(">="), "ge": compares(">="),
		"<": compares("<"), "lt": compares("<"), "lessthan": compares("<"), "<=": compares("<="), "le": compares("<="),
	}
}

func (s *state) test(name string, v Value, a *arguments) Value {
	if f := predicates[name]; f != nil {
		a.bind(s, "the test "+name, 0)
		return f(s, v, nil)
	}
	f := relations[name]
	if f == nil {
		s.fail("no test named %q", name)
	}
	return f(s, v, a.bind(s, "the test "+name, 1, "other")[0])
}

// isSame is Python's `is`: equal constants and small numbers are the same object.
func isSame(_ *state, v, other Value) bool {
	if isNumber(v) || isNumber(other) {
		return TypeName(v) == TypeName(other) && equal(v, other)
	}
	if t, ok := v.(Text); ok {
		o, ok := other.(Text)
		return ok && t.s == o.s
	}
	return v == other
}

func isSequence(v Value) bool {
	switch v := v.(type) {
	case Text, *Dict, *undefined: // Jinja counts even undefined as a sequence
		return true
	case *Sequence:
		return v.isIndexable()
	}
	return false
}

func isIterable(v Value) bool {
	switch v.(type) {
	case Text, *Dict, *Sequence, *generator, *loopState, *undefined:
		return true
	}
	return false
}

func isCallable(v Value) bool {
	switch v.(type) {
	case *function, *method, *macro, *loopState, *undefined:
		return true
	}
	return false
}
