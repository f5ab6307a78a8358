package jinja

import "slices"

// globals are the functions available in every template.
var globals map[string]Value

func init() {
	globals = map[string]Value{}
	for name, f := range map[string]func(*state, *arguments) Value{
		"range": rangeFunction, "dict": dictFunction, "namespace": namespaceFunction,
		"raise_exception": raiseException, "strftime_now": strftimeNow, "cycler": cyclerFunction, "joiner": joinerFunction,
	} {
		globals[name] = &function{name, f}
	}
}

func rangeFunction(s *state, a *arguments) Value {
	if len(a.positional) == 0 || len(a.positional) > 3 || len(a.keywords.keys) > 0 {
		s.fail("range takes 1 to 3 arguments, got %d", len(a.positional))
	}
	numbers := make([]int, len(a.positional))
	for i, v := range a.positional {
		numbers[i] = s.clampedInt(v, "the arguments of range")
	}
	from, to, step := 0, numbers[0], 1
	if len(numbers) > 1 {
		from, to = numbers[0], numbers[1]
	}
	if len(numbers) > 2 {
		step = numbers[2]
	}
	if step == 0 {
		s.fail("range() arg 3 must not be zero")
	}
	if (to-from)/step > maxRange {
		s.fail("a range of more than %d items", maxRange)
	}
	var items []Value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		items = append(items, int64(i))
	}
	s.charge(len(items))
	return &Sequence{rangeKind, items}
}

// pairs is Python's dict(…): it makes a dict of its arguments.
func pairs(s *state, name string, a *arguments) *Dict {
	if len(a.positional) > 1 {
		s.fail("%s expected at most 1 argument, got %d", name, len(a.positional))
	}
	m := NewDict()
	if len(a.positional) == 1 {
		if from, ok := a.positional[0].(*Dict); ok {
			m = from.Clone()
		} else {
			for _, item := range s.iterate(a.positional[0]) {
				pair := s.iterate(item)
				if len(pair) != 2 || !m.setItem(pair[0], pair[1]) {
					s.fail("%s needs pairs of a key and a value", name)
				}
			}
		}
	}
	m.update(a.keywords)
	return m
}

func dictFunction(s *state, a *arguments) Value { return pairs(s, "dict", a) }

func namespaceFunction(s *state, a *arguments) Value {
	n := &namespace{NewDict()}
	m := pairs(s, "namespace", a)
	for k, v := range m.all() {
		s.setAttribute(n, s.needText(k).s, v)
	}
	return n
}

// raiseException lets a template reject a conversation.
func raiseException(s *state, a *arguments) Value {
	s.fail("%s", s.str(a.bind(s, "raise_exception", 1, "message")[0]).s)
	return nil
}

func strftimeNow(s *state, a *arguments) Value {
	return NewText(s.strftime(s.needText(a.bind(s, "strftime_now", 1, "format")[0]).s))
}

func cyclerFunction(s *state, a *arguments) Value {
	if len(a.positional) == 0 {
		s.fail("at least one item has to be provided")
	}
	items, at := slices.Clone(a.positional), 0
	n := &namespace{NewDict()}
	step := func(f func()) Value {
		return &function{"cycler", func(*state, *arguments) Value {
			v := items[at]
			f()
			n.attributes.Set("current", items[at])
			return v
		}}
	}
	n.attributes.Set("current", items[0])
	n.attributes.Set("next", step(func() { at = (at + 1) % len(items) }))
	n.attributes.Set("reset", step(func() { at = 0 }))
	return n
}

func joinerFunction(s *state, a *arguments) Value {
	sep := or(a.bind(s, "joiner", 0, "sep")[0], NewText(", "))
	used := false
	return &function{"joiner", func(*state, *arguments) Value {
		if used {
			return sep
		}
		used = true
		return Text{}
	}}
}
