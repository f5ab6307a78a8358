package jinja

// binary applies a binary operator.
func (s *state) binary(op string, a, b Value) Value {
	s.needDefined(a)
	s.needDefined(b)
	if isNumber(a) && isNumber(b) {
		return s.number(op, a, b)
	}
	switch x := a.(type) {
	case Text:
		switch op {
		case "+":
			if y, ok := b.(Text); ok {
				return s.addTexts(x, y)
			}
			s.fail(`can only concatenate str (not "%s") to str`, TypeName(b))
		case "%":
			return s.percent(x, b)
		}
	case *Sequence:
		if y, ok := b.(*Sequence); ok && op == "+" && x.kind == y.kind && x.kind <= tupleKind {
			s.charge(len(x.Items) + len(y.Items))
			items := make([]Value, 0, len(x.Items)+len(y.Items))
			return &Sequence{x.kind, append(append(items, x.Items...), y.Items...)}
		}
	case *Dict:
		if y, ok := b.(*Dict); ok && op == "|" {
			return s.union(x, y)
		}
	}
	if op == "*" {
		if v, ok := s.repeat(a, b); ok {
			return v
		}
	}
	s.fail("unsupported operand type(s) for %s: '%s' and '%s'", op, TypeName(a), TypeName(b))
	return nil
}

func (s *state) addTexts(a, b Text) Value {
	if a.safe != b.safe { // Markup escapes the other operand
		if a.safe {
			b = escapeHTML(b)
		} else {
			a = escapeHTML(a)
		}
	}
	s.chargeText(len(a.s) + len(b.s))
	t := Concat(a, b)
	t.safe = a.safe || b.safe
	return t
}

func (s *state) union(a, b *Dict) Value {
	m := a.Clone()
	m.update(b)
	return m
}

// repeat returns a text or a list times a number.
func (s *state) repeat(a, b Value) (Value, bool) {
	if _, ok := toInt(a); ok {
		a, b = b, a
	}
	n, ok := toInt(b)
	if !ok {
		return nil, false
	}
	count := 0
	if n.Sign() > 0 {
		count = int(min(uint64(1<<40), n.Uint64()))
		if !n.IsUint64() {
			count = 1 << 40
		}
	}
	switch x := a.(type) {
	case Text:
		if x.s == "" {
			return x, true
		}
		s.chargeText(min(count, maxText+1) * len(x.s))
		var t textBuilder
		for range count {
			t.add(x)
		}
		out := t.text()
		out.safe = x.safe
		return out, true
	case *Sequence:
		if x.kind > tupleKind {
			return nil, false
		}
		if len(x.Items) == 0 {
			return x, true
		}
		s.charge(min(count, maxSteps) * len(x.Items))
		var items []Value
		for range count {
			items = append(items, x.Items...)
		}
		return &Sequence{x.kind, items}, true
	}
	return nil, false
}
