package chat

import (
	"slices"
	"strings"
)

func (s *state) batch(v value, a *arguments) value {
	args := a.bind(s, "batch", 1, "linecount", "fill_with")
	n := s.clampedInt(args[0], "a line count")
	return &generator{compute: func() []value {
		var out []value
		items := s.iterate(v)
		if n <= 0 && len(items) > 0 { // as Python's: a batch is never full
			return []value{list(items)}
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
			out = append(out, list(batch))
		}
		return out
	}}
}

func (s *state) sliceFilter(v value, a *arguments) value {
	args := a.bind(s, "slice", 1, "slices", "fill_with")
	n := s.clampedInt(args[0], "a number of slices")
	return &generator{compute: func() []value {
		items := s.iterate(v)
		if n == 0 {
			s.fail("integer division or modulo by zero")
		}
		s.charge(max(0, n))
		return s.slices(items, n, or(args[1], nil))
	}}
}

// slices divides items into n columns, the first of which get one more where they do not divide evenly.
func (s *state) slices(items []value, n int, fill value) []value {
	var out []value
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
		out = append(out, list(column))
	}
	return out
}

func (s *state) lengthFilter(v value, _ *arguments) value {
	switch v := v.(type) {
	case text:
		s.charge(len(v.s) >> 6)
		return int64(v.length())
	case *sequence:
		return int64(len(v.items))
	case *mapping:
		return int64(len(v.keys))
	case *loopState:
		return int64(len(v.items))
	case *undefined:
		return int64(0)
	}
	s.fail("object of type '%s' has no len()", typeName(v))
	return nil
}

// ignoreCase is the key by which filters sort.
func ignoreCase(v value) value {
	if t, ok := v.(text); ok {
		return lower(t)
	}
	return v
}

// sorted sorts by a key, stably.
func (s *state) sorted(items []value, key func(value) value, reverse bool) []value {
	type keyed struct{ key, item value }
	all := make([]keyed, len(items))
	for i, item := range items {
		all[i] = keyed{key(item), item}
	}
	s.charge(len(items))
	slices.SortStableFunc(all, func(a, b keyed) int {
		s.charge(1)
		order := s.compare(a.key, b.key, "<")
		if order == 2 {
			order = 0
		}
		if reverse {
			return -order
		}
		return order
	})
	out := make([]value, len(items))
	for i, k := range all {
		out[i] = k.item
	}
	return out
}

func (s *state) dictsort(v value, a *arguments) value {
	args := a.bind(s, "dictsort", 0, "case_sensitive", "by", "reverse")
	m, ok := v.(*mapping)
	if !ok {
		s.needDefined(v)
		s.fail("'%s' object has no attribute 'items'", typeName(v))
	}
	at := slices.Index([]string{"key", "value"}, s.needText(or(args[1], plain("key"))).s)
	if at < 0 {
		s.fail(`dictsort sorts by "key" or "value"`)
	}
	key := func(item value) value {
		k := item.(*sequence).items[at]
		if truth(or(args[0], false)) {
			return k
		}
		return ignoreCase(k)
	}
	return list(s.sorted(m.view(itemsKind).items, key, truth(or(args[2], false))))
}

func (s *state) itemsFilter(v value, _ *arguments) value {
	switch v := v.(type) {
	case *undefined:
		return &generator{}
	case *mapping:
		return &generator{rest: v.view(itemsKind).items}
	}
	return &generator{compute: func() []value {
		s.fail("can only get item pairs from a mapping, not from '%s'", typeName(v))
		return nil
	}}
}

func (s *state) first(v value, _ *arguments) value {
	if g, ok := v.(*generator); ok {
		if item, ok := g.next(); ok {
			return item
		}
	} else if items := s.iterate(v); len(items) > 0 {
		return items[0]
	}
	return &undefined{what: "the first item of an empty sequence"}
}

func (s *state) last(v value, _ *arguments) value {
	if _, ok := v.(*generator); ok {
		s.fail("'generator' object is not reversible")
	}
	if items := s.iterate(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return &undefined{what: "the last item of an empty sequence"}
}

func (s *state) joinFilter(v value, a *arguments) value {
	args := a.bind(s, "join", 0, "d", "attribute")
	if attribute := or(args[1], nil); attribute != nil {
		v = list(s.each(s.iterate(v), s.getter(attribute)))
	}
	return s.join(s.str(or(args[0], text{})), v, true)
}

func (s *state) each(items []value, f func(value) value) []value {
	out := make([]value, len(items))
	for i, item := range items {
		s.charge(1)
		out[i] = f(item)
	}
	return out
}

// getter looks up an attribute that is given as a dotted path or an index.
func (s *state) getter(attribute value) func(value) value {
	if attribute == nil {
		return func(v value) value { return v }
	}
	path := []value{attribute}
	if t, ok := attribute.(text); ok {
		path = nil
		for _, part := range t.split(".", -1) {
			if i, ok := parseInt(part.s, 10); ok && strings.IndexFunc(part.s, func(r rune) bool { return !isDigit(r) }) < 0 {
				path = append(path, integer(i))
				continue
			}
			path = append(path, part)
		}
	}
	return func(v value) value {
		for _, part := range path {
			v = s.item(v, part)
		}
		return v
	}
}

// sortKey is the getter of filters that compare, which ignore the case unless told otherwise.
func (s *state) sortKey(attribute, caseSensitive value) func(value) value {
	get := s.getter(or(attribute, nil))
	if truth(or(caseSensitive, false)) {
		return get
	}
	return func(v value) value { return ignoreCase(get(v)) }
}

func (s *state) mapFilter(v value, a *arguments) value {
	var f func(value) value
	if attribute, ok := a.keywords.getString("attribute"); ok && len(a.positional) == 0 {
		preset, hasPreset := a.keywords.getString("default")
		get := s.getter(attribute)
		f = func(v value) value {
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
		f = func(v value) value { return s.filter(name, v, rest) }
	}
	if !truth(v) {
		return &generator{}
	}
	return &generator{compute: func() []value { return s.each(s.iterate(v), f) }}
}

// selection is select, reject, selectattr and rejectattr.
func selection(name string, keep, byAttribute bool) filterFunc {
	return func(s *state, v value, a *arguments) value {
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
			holds = func(v value) bool { return truth(s.test(test, v, &arguments{rest[1:], a.keywords})) }
		}
		if !truth(v) {
			return &generator{}
		}
		return &generator{compute: func() []value {
			var kept []value
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

func extreme(name string, order int) filterFunc {
	return func(s *state, v value, a *arguments) value {
		args := a.bind(s, name, 0, "case_sensitive", "attribute")
		key := s.sortKey(args[1], args[0])
		items := s.iterate(v)
		if len(items) == 0 {
			return &undefined{what: "the " + name + " of an empty sequence"}
		}
		best := items[0]
		for _, item := range items[1:] {
			if s.compare(key(item), key(best), "<") == order {
				best = item
			}
		}
		return best
	}
}

func (s *state) reverse(v value, _ *arguments) value {
	if t, ok := v.(text); ok {
		step := -1
		return s.sliceText(t, nil, nil, step)
	}
	items := slices.Clone(s.iterate(v))
	slices.Reverse(items)
	return &generator{rest: items}
}

func (s *state) sort(v value, a *arguments) value {
	args := a.bind(s, "sort", 0, "reverse", "case_sensitive", "attribute")
	return list(s.sorted(s.iterate(v), s.sortKeys(or(args[2], nil), args[1]), truth(or(args[0], false))))
}

// sortKeys is the key of a sort by several attributes with commas between.
func (s *state) sortKeys(attribute, caseSensitive value) func(value) value {
	var keys []func(value) value
	if t, ok := attribute.(text); ok {
		for _, part := range t.split(",", -1) {
			keys = append(keys, s.sortKey(part, caseSensitive))
		}
	} else {
		keys = append(keys, s.sortKey(attribute, caseSensitive))
	}
	return func(v value) value {
		items := make([]value, len(keys))
		for i, key := range keys {
			items[i] = key(v)
		}
		return list(items)
	}
}

func (s *state) sum(v value, a *arguments) value {
	args := a.bind(s, "sum", 0, "attribute", "start")
	get := s.getter(or(args[0], nil))
	total := or(args[1], int64(0))
	for _, item := range s.iterate(v) {
		total = s.binary("+", total, get(item))
	}
	return total
}

func (s *state) unique(v value, a *arguments) value {
	args := a.bind(s, "unique", 0, "case_sensitive", "attribute")
	key := s.sortKey(args[1], args[0])
	return &generator{compute: func() []value {
		seen := newMapping()
		var out []value
		for _, item := range s.iterate(v) {
			k := key(item)
			if _, ok := seen.get(k); ok {
				continue
			}
			if !seen.set(k, true) {
				s.fail("unhashable type: '%s'", typeName(k))
			}
			out = append(out, item)
		}
		return out
	}}
}

func (s *state) groupBy(v value, a *arguments) value {
	args := a.bind(s, "groupby", 1, "attribute", "default", "case_sensitive")
	get := s.getter(args[0])
	withDefault := func(v value) value {
		got := get(v)
		if _, missing := got.(*undefined); missing && or(args[1], nil) != nil {
			return args[1]
		}
		return got
	}
	key := withDefault
	if !truth(or(args[2], false)) {
		key = func(v value) value { return ignoreCase(withDefault(v)) }
	}
	var groups, group []value
	items := s.sorted(s.iterate(v), key, false)
	for i, item := range items {
		group = append(group, item)
		if i == len(items)-1 || !equal(key(items[i+1]), key(item)) {
			groups = append(groups, tuple(withDefault(group[0]), list(group)))
			group = nil
		}
	}
	return list(groups)
}
