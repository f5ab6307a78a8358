package jinja

// subscript returns value[index] or value[from:to:step].
func (s *state) subscript(n *subscript, c *scope) Value {
	of := s.eval(n.of, c)
	if r, ok := n.index.(*sliceRange); ok {
		return s.slice(of, r, c)
	}
	index := s.eval(n.index, c)
	s.line = n.at()
	return s.item(of, index)
}

// item returns value[index], or the attribute of that name.
func (s *state) item(of, index Value) Value {
	s.needDefined(of)
	if v, ok := s.tryItem(of, index); ok {
		return v
	}
	if name, ok := index.(Text); ok {
		if v, ok := s.tryAttribute(of, name.s); ok {
			return v
		}
	}
	return s.missing(of, repr(index).s)
}

// attribute returns value.name, or the item with that key.
func (s *state) attribute(of Value, name string) Value {
	s.needDefined(of)
	if v, ok := s.tryAttribute(of, name); ok {
		return v
	}
	if v, ok := s.tryItem(of, NewText(name)); ok {
		return v
	}
	return s.missing(of, "'"+name+"'")
}

func (s *state) missing(of Value, name string) Value {
	return &undefined{what: "'" + TypeName(of) + " object' has no attribute " + name + ": it"}
}

func (s *state) tryItem(of, index Value) (Value, bool) {
	switch of := of.(type) {
	case *Dict:
		return of.item(index)
	case *Sequence:
		if !of.isIndexable() {
			return nil, false
		}
		i, ok := position(index, len(of.Items))
		if !ok {
			return nil, false
		}
		return of.Items[i], true
	case Text:
		s.charge(len(of.s) >> 6)
		i, ok := position(index, of.length())
		if !ok {
			return nil, false
		}
		t := of.Slice(of.offset(i), of.offset(i+1))
		return t, true
	}
	return nil, false
}

// position converts an index, negative from the end, and reports whether it is in range.
func position(index Value, n int) (int, bool) {
	i, ok := toInt(index)
	if !ok || !i.IsInt64() {
		return 0, false
	}
	at := i.Int64()
	if at < 0 {
		at += int64(n)
	}
	return int(at), at >= 0 && at < int64(n)
}

func (s *state) slice(of Value, r *sliceRange, c *scope) Value {
	bound := func(n node) *int {
		if n == nil {
			return nil
		}
		v := s.eval(n, c)
		if v == nil {
			return nil
		}
		i := s.clampedInt(v, "slice indices")
		return &i
	}
	from, to, step := bound(r.from), bound(r.to), bound(r.step)
	s.needDefined(of)
	by := 1
	if step != nil {
		by = *step
	}
	if by == 0 {
		s.fail("slice step cannot be zero")
	}
	switch of := of.(type) {
	case *Sequence:
		if of.isIndexable() {
			var items []Value
			s.charge(len(of.Items) >> 3)
			for _, i := range indices(from, to, by, len(of.Items)) {
				items = append(items, of.Items[i])
			}
			return &Sequence{of.kind, items}
		}
	case Text:
		return s.sliceText(of, from, to, by)
	}
	return s.missing(of, "slice")
}

func (s *state) sliceText(t Text, from, to *int, step int) Value {
	n := t.length()
	s.charge(n >> 6)
	if step == 1 {
		a, b := bounds(from, to, 1, n)
		return t.Slice(t.offset(a), t.offset(max(a, b)))
	}
	var starts []int
	for i := range t.s {
		starts = append(starts, i)
	}
	starts = append(starts, len(t.s))
	var b textBuilder
	for _, i := range indices(from, to, step, n) {
		b.add(t.Slice(starts[i], starts[i+1]))
	}
	return b.text()
}

// bounds returns the first index of a slice and the index behind its last, as Python's slice.indices.
func bounds(from, to *int, step, n int) (int, int) {
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	bound := func(p *int, absent int) int {
		if p == nil {
			return absent
		}
		i := *p
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	if step < 0 {
		return bound(from, high), bound(to, low)
	}
	return bound(from, low), bound(to, high)
}

func indices(from, to *int, step, n int) []int {
	a, b := bounds(from, to, step, n)
	var out []int
	for i := a; step > 0 && i < b || step < 0 && i > b; i += step {
		out = append(out, i)
	}
	return out
}
