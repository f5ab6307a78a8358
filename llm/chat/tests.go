package chat

import "unicode"

// A testFunc gives `v is name(operand)`.
type testFunc func(s *state, v, operand value) bool

// The tests without an operand, and those with one.
var plainTests, operandTests map[string]testFunc

func init() {
	compares := func(op string) testFunc {
		return func(s *state, v, operand value) bool { return s.compares(op, v, operand) }
	}
	divides := func(s *state, v, by, rest value) bool { return equal(s.binary("%", v, by), rest) }
	plainTests = map[string]testFunc{
		"odd":       func(s *state, v, _ value) bool { return divides(s, v, int64(2), int64(1)) },
		"even":      func(s *state, v, _ value) bool { return divides(s, v, int64(2), int64(0)) },
		"defined":   func(_ *state, v, _ value) bool { return !isType[*undefined](v) },
		"undefined": func(_ *state, v, _ value) bool { return isType[*undefined](v) },
		"none":      func(_ *state, v, _ value) bool { return v == nil },
		"boolean":   func(_ *state, v, _ value) bool { return isType[bool](v) },
		"true":      func(_ *state, v, _ value) bool { return v == true },
		"false":     func(_ *state, v, _ value) bool { return v == false },
		"integer":   func(_ *state, v, _ value) bool { _, ok := toInt(v); return ok && !isType[bool](v) },
		"float":     func(_ *state, v, _ value) bool { return isType[float64](v) },
		"number":    func(_ *state, v, _ value) bool { return isNumber(v) },
		"string":    func(_ *state, v, _ value) bool { return isType[text](v) },
		"mapping":   func(_ *state, v, _ value) bool { return isType[*mapping](v) },
		"sequence":  func(_ *state, v, _ value) bool { return isSequence(v) },
		"iterable":  func(_ *state, v, _ value) bool { return isIterable(v) },
		"callable":  func(_ *state, v, _ value) bool { return isCallable(v) },
		"lower":     func(s *state, v, _ value) bool { return isCased(s.str(v), unicode.IsLower, unicode.IsUpper) },
		"upper":     func(s *state, v, _ value) bool { return isCased(s.str(v), unicode.IsUpper, unicode.IsLower) },
		"escaped":   func(_ *state, v, _ value) bool { t, ok := v.(text); return ok && t.safe },
		"filter":    func(_ *state, v, _ value) bool { t, ok := v.(text); return ok && filters[t.s] != nil },
		"test": func(_ *state, v, _ value) bool {
			t, ok := v.(text)
			return ok && (plainTests[t.s] != nil || operandTests[t.s] != nil)
		},
	}
	operandTests = map[string]testFunc{
		"divisibleby": func(s *state, v, by value) bool { return divides(s, v, by, int64(0)) },
		"in":          compares("in"), "sameas": isSame,
		"==": compares("=="), "eq": compares("=="), "equalto": compares("=="), "!=": compares("!="), "ne": compares("!="),
		">": compares(">"), "gt": compares(">"), "greaterthan": compares(">"), ">=": compares(">="), "ge": compares(">="),
		"<": compares("<"), "lt": compares("<"), "lessthan": compares("<"), "<=": compares("<="), "le": compares("<="),
	}
}

func (s *state) test(name string, v value, a *arguments) value {
	if f := plainTests[name]; f != nil {
		a.bind(s, "the test "+name, 0)
		return f(s, v, nil)
	}
	f := operandTests[name]
	if f == nil {
		s.fail("no test named %q", name)
	}
	return f(s, v, a.bind(s, "the test "+name, 1, "other")[0])
}

func isType[T any](v value) bool {
	_, ok := v.(T)
	return ok
}

// isSame is the operator is: constants and small numbers are the same object wherever they come from.
func isSame(_ *state, v, other value) bool {
	if isNumber(v) || isNumber(other) {
		return typeName(v) == typeName(other) && equal(v, other)
	}
	if t, ok := v.(text); ok {
		o, ok := other.(text)
		return ok && t.s == o.s
	}
	return v == other
}

func isSequence(v value) bool {
	switch v := v.(type) {
	case text, *mapping, *undefined: // of undefined, too, Jinja says so
		return true
	case *sequence:
		return v.isIndexable()
	}
	return false
}

func isIterable(v value) bool {
	switch v.(type) {
	case text, *mapping, *sequence, *generator, *loopState, *undefined:
		return true
	}
	return false
}

func isCallable(v value) bool {
	switch v.(type) {
	case *function, *method, *macro, *loopState, *undefined:
		return true
	}
	return false
}
