package jinja

import (
	"slices"
	"strings"
)

func (s *state) batch(v Value, a *arguments) Value {
	args := a.bind(s, "batch", 1, "linecount", "fill_with")
	n := s.clampedInt(args[0], "a line count")
	return &generator{compute: func() []Value {
		var out []Value
		items := s.iterate(v)
		if n <= 0 && len(items) > 0 { // as in Python: a batch is never full
			return []Value{NewList(items)}
		}
		for len(items) > 0 {
			k := min(n, len(items))
			batch := slices.Clone(items[:k])
			items = items[k:]
			if fill := or(args[1], nil); fill != nil && k < n {
				s.charge(n)
				for len(batch) < n {
					batch = append(batch, fill)
				}
			}
			out = append(out, NewList(batch))
		}
		return out
	}}
}

func (s *state) sliceFilter(v Value, a *arguments) Value {
	args := a.bind(s, "slice", 1, "slices", "fill_with")
	n := s.clampedInt(args[0], "a number of slices")
	return &generator{compute: func() []Value {
		items := s.iterate(v)
		if n == 0 {
			s.fail("integer division or modulo by zero")
		}
		s.charge(max(0, n))
		return s.slices(items, n, or(args[1], nil))
	}}
}

// slices divides items into n columns. If they do not divide evenly, the first columns get one more.
func (s *state) slices(items []Value, n int, fill Value) []Value {
	var out []Value
	each, extra, from := len(items)/n, len(items)%n, 0
	for i := range max(0, n) {
		size := each
		if i < extra {
			size++
		}
		column := slices.Clone(items[from : from+size])
		from += size
		if fill != nil && i >= extra {
			column = append(column, fill)
		}
		out = append(out, NewList(column))
	}
	return out
}

func (s *state) lengthFilter(v Value, _ *arguments) Value {
	switch v := v.(type) {
	case Text:
		s.charge(len(v.s) >> 6)
		return int64(v.length())
	case *Sequence:
		return int64(len(v.Items))
	case *Dict:
		return int64(len(v.keys))
	case *loopState:
		return int64(len(v.items))
	case *undefined:
		return int64(0)
	}
	s.fail("object of type '%s' has no len()", TypeName(v))
	return nil
}

func (s *state) itemsFilter(v Value, _ *arguments) Value {
	switch v := v.(type) {
	case *undefined:
		return &generator{}
	case *Dict:
		return &generator{rest: v.view(itemsKind).Items}
	}
	return &generator{compute: func() []Value {
		s.fail("can only get item pairs from a mapping, not from '%s'", TypeName(v))
		return nil
	}}
}

func (s *state) first(v Value, _ *arguments) Value {
	if g, ok := v.(*generator); ok {
		if item, ok := g.next(); ok {
			return item
		}
	} else if items := s.iterate(v); len(items) > 0 {
		return items[0]
	}
	return &undefined{what: "the first item of an empty sequence"}
}

func (s *state) last(v Value, _ *arguments) Value {
	if _, ok := v.(*generator); ok {
		s.fail("'generator' object is not reversible")
	}
	if items := s.iterate(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return &undefined{what: "the last item of an empty sequence"}
}

func (s *state) joinFilter(v Value, a *arguments) Value {
	args := a.bind(s, "join", 0, "d", "attribute")
	if attribute := or(args[1], nil); attribute != nil {
		v = NewList(s.each(s.iterate(v), s.getter(attribute)))
	}
	return s.join(s.str(or(args[0], Text{})), v, true)
}

func (s *state) each(items []Value, f func(Value) Value) []Value {
	out := make([]Value, len(items))
	for i, item := range items {
		s.charge(1)
		out[i] = f(item)
	}
	return out
}

// getter returns a function that looks up an attribute, given as dotted path or index.
func (s *state) getter(attribute Value) func(Value) Value {
	if attribute == nil {
		return func(v Value) Value { return v }
	}
	path := []Value{attribute}
	if t, ok := attribute.(Text); ok {
		path = nil
		for _, part := range t.split(".", -1) {
			if i, ok := parseInt(part.s, 10); ok && strings.IndexFunc(part.s, func(r rune) bool { return !isDigit(r) }) < 0 {
				path = append(path, integer(i))
				continue
			}
			path = append(path, part)
		}
	}
	return func(v Value) Value {
		for _, part := range path {
			v = s.item(v, part)
		}
		return v
	}
}

func (s *state) mapFilter(v Value, a *arguments) Value {
	var f func(Value) Value
	if attribute, ok := a.keywords.Get("attribute"); ok && len(a.positional) == 0 {
		preset, hasPreset := a.keywords.Get("default")
		get := s.getter(attribute)
		f = func(v Value) Value {
			got := get(v)
			if _, missing := got.(*undefined); missing && hasPreset && preset != nil {
				return preset
			}
			return got
		}
	} else {
		if len(a.positional) == 0 {
			s.fail("map needs a filter, or attribute=…")
		}
		name := s.needText(a.positional[0]).s
		rest := &arguments{a.positional[1:], a.keywords}
		f = func(v Value) Value { return s.filter(name, v, rest) }
	}
	if !truth(v) {
		return &generator{}
	}
	return &generator{compute: func() []Value { return s.each(s.iterate(v), f) }}
}

// selection returns the filter select, reject, selectattr or rejectattr.
func selection(name string, keep, byAttribute bool) filterFunc {
	return func(s *state, v Value, a *arguments) Value {
		get, rest := s.getter(nil), a.positional
		if byAttribute {
			if len(rest) == 0 {
				s.fail("%s needs the name of an attribute", name)
			}
			get, rest = s.getter(rest[0]), rest[1:]
		}
		holds := truth
		if len(rest) > 0 {
			test := s.needText(rest[0]).s
			holds = func(v Value) bool { return truth(s.test(test, v, &arguments{rest[1:], a.keywords})) }
		}
		if !truth(v) {
			return &generator{}
		}
		return &generator{compute: func() []Value {
			var kept []Value
			for _, item := range s.iterate(v) {
				s.charge(1)
				if holds(get(item)) == keep {
					kept = append(kept, item)
				}
			}
			return kept
		}}
	}
}

func (s *state) reverse(v Value, _ *arguments) Value {
	if t, ok := v.(Text); ok {
		step := -1
		return s.sliceText(t, nil, nil, step)
	}
	items := slices.Clone(s.iterate(v))
	slices.Reverse(items)
	return &generator{rest: items}
}

func (s *state) sum(v Value, a *arguments) Value {
	args := a.bind(s, "sum", 0, "attribute", "start")
	get := s.getter(or(args[0], nil))
	total := or(args[1], int64(0))
	for _, item := range s.iterate(v) {
		total = s.binary("+", total, get(item))
	}
	return total
}

func (s *state) unique(v Value, a *arguments) Value {
	args := a.bind(s, "unique", 0, "case_sensitive", "attribute")
	key := s.sortKey(args[1], args[0])
	return &generator{compute: func() []Value {
		seen := NewDict()
		var out []Value
		for _, item := range s.iterate(v) {
			k := key(item)
			if _, ok := seen.item(k); ok {
				continue
			}
			if !seen.setItem(k, true) {
				s.fail("unhashable type: '%s'", TypeName(k))
			}
			out = append(out, item)
		}
		return out
	}}
}
