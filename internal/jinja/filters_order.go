package jinja

import "slices"

// ignoreCase returns the case-insensitive sort key.
func ignoreCase(v Value) Value {
	if t, ok := v.(Text); ok {
		return lowerCase(t)
	}
	return v
}

// sortKey returns the key function of comparing filters, case-insensitive by default.
func (s *state) sortKey(attribute, caseSensitive Value) func(Value) Value {
	get := s.getter(or(attribute, nil))
	if truth(or(caseSensitive, false)) {
		return get
	}
	return func(v Value) Value { return ignoreCase(get(v)) }
}

// sorted returns the items sorted stably by a key.
func (s *state) sorted(items []Value, key func(Value) Value, reverse bool) []Value {
	type keyed struct{ key, item Value }
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
	out := make([]Value, len(items))
	for i, k := range all {
		out[i] = k.item
	}
	return out
}

func (s *state) sort(v Value, a *arguments) Value {
	args := a.bind(s, "sort", 0, "reverse", "case_sensitive", "attribute")
	return NewList(s.sorted(s.iterate(v), s.sortKeys(or(args[2], nil), args[1]), truth(or(args[0], false))))
}

// sortKeys returns the key function for several attributes separated by commas.
func (s *state) sortKeys(attribute, caseSensitive Value) func(Value) Value {
	var keys []func(Value) Value
	if t, ok := attribute.(Text); ok {
		for _, part := range t.split(",", -1) {
			keys = append(keys, s.sortKey(part, caseSensitive))
		}
	} else {
		keys = append(keys, s.sortKey(attribute, caseSensitive))
	}
	return func(v Value) Value {
		items := make([]Value, len(keys))
		for i, key := range keys {
			items[i] = key(v)
		}
		return NewList(items)
	}
}

func (s *state) dictsort(v Value, a *arguments) Value {
	args := a.bind(s, "dictsort", 0, "case_sensitive", "by", "reverse")
	d := s.needDict(v)
	at := slices.Index([]string{"key", "value"}, s.needText(or(args[1], NewText("key"))).s)
	if at < 0 {
		s.fail(`dictsort sorts by "key" or "value"`)
	}
	key := func(item Value) Value {
		k := item.(*Sequence).Items[at]
		if truth(or(args[0], false)) {
			return k
		}
		return ignoreCase(k)
	}
	return NewList(s.sorted(d.view(itemsKind).Items, key, truth(or(args[2], false))))
}

func extreme(name string, order int) filterFunc {
	return func(s *state, v Value, a *arguments) Value {
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

func (s *state) groupBy(v Value, a *arguments) Value {
	args := a.bind(s, "groupby", 1, "attribute", "default", "case_sensitive")
	get := s.getter(args[0])
	withDefault := func(v Value) Value {
		got := get(v)
		if _, missing := got.(*undefined); missing && or(args[1], nil) != nil {
			return args[1]
		}
		return got
	}
	key := withDefault
	if !truth(or(args[2], false)) {
		key = func(v Value) Value { return ignoreCase(withDefault(v)) }
	}
	var groups, group []Value
	items := s.sorted(s.iterate(v), key, false)
	for i, item := range items {
		group = append(group, item)
		if i == len(items)-1 || !equal(key(items[i+1]), key(item)) {
			groups = append(groups, tuple(withDefault(group[0]), NewList(group)))
			group = nil
		}
	}
	return NewList(groups)
}
