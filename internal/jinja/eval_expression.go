package jinja

// eval evaluates an expression.
func (s *state) eval(n node, c *scope) Value {
	s.charge(1)
	s.line = n.at()
	switch n := n.(type) {
	case *constant:
		return n.value
	case *variable:
		return s.lookup(n.name, c)
	case *collection:
		items := make([]Value, len(n.items))
		for i, item := range n.items {
			items[i] = s.eval(item, c)
		}
		return &Sequence{n.kind, items}
	case *dictionary:
		return s.dictionary(n, c)
	case *attribute:
		return s.attribute(s.eval(n.of, c), n.name)
	case *subscript:
		return s.subscript(n, c)
	case *call:
		f := s.eval(n.of, c)
		a := s.arguments(n.args, c)
		s.line = n.at()
		return s.call(f, a)
	case *filter:
		return s.applyFilters(n, nil, c)
	case *test:
		v := s.eval(n.of, c)
		a := s.arguments(n.args, c)
		s.line = n.at()
		return s.test(n.name, v, a)
	case *unary:
		return s.unary(n, c)
	case *binary:
		return s.operator(n, c)
	case *comparison:
		return s.comparison(n, c)
	case *concatenation:
		return s.concatenation(n, c)
	case *conditional:
		return s.conditional(n, c)
	}
	s.fail("a slice stands outside of brackets")
	return nil
}

func (s *state) lookup(name string, c *scope) Value {
	if v, ok := c.get(name); ok {
		return v
	}
	if f, ok := globals[name]; ok {
		return f
	}
	return &undefined{what: "'" + name + "'"}
}

func (s *state) dictionary(n *dictionary, c *scope) Value {
	m := NewDict()
	for i, key := range n.keys {
		k := s.eval(key, c)
		if !m.setItem(k, s.eval(n.values[i], c)) {
			s.fail("unhashable type: '%s'", TypeName(k))
		}
	}
	return m
}

func (s *state) unary(n *unary, c *scope) Value {
	v := s.eval(n.of, c)
	s.line = n.at()
	switch n.op {
	case "not":
		return !truth(v)
	case "-":
		return s.negate(v)
	}
	s.needDefined(v)
	if b, ok := v.(bool); ok {
		i, _ := toInt(b)
		return integer(i)
	}
	if !isNumber(v) {
		s.fail("bad operand type for unary +: '%s'", TypeName(v))
	}
	return v
}

func (s *state) operator(n *binary, c *scope) Value {
	a := s.eval(n.a, c)
	switch n.op {
	case "and":
		if !truth(a) {
			return a
		}
		return s.eval(n.b, c)
	case "or":
		if truth(a) {
			return a
		}
		return s.eval(n.b, c)
	}
	b := s.eval(n.b, c)
	s.line = n.at()
	return s.binary(n.op, a, b)
}

func (s *state) comparison(n *comparison, c *scope) Value {
	a := s.eval(n.first, c)
	for i, op := range n.ops {
		b := s.eval(n.rest[i], c)
		s.line = n.at()
		if !s.compares(op, a, b) {
			return false
		}
		a = b
	}
	return true
}

func (s *state) compares(op string, a, b Value) bool {
	s.charge(1)
	switch op {
	case "==":
		return equal(a, b)
	case "!=":
		return !equal(a, b)
	case "in":
		return s.contains(b, a)
	case "not in":
		return !s.contains(b, a)
	}
	switch order := s.compare(a, b, op); op {
	case "<":
		return order == -1
	case "<=":
		return order == -1 || order == 0
	case ">":
		return order == 1
	default:
		return order == 1 || order == 0
	}
}

func (s *state) concatenation(n *concatenation, c *scope) Value {
	var b textBuilder
	for _, part := range n.parts {
		t := s.str(s.eval(part, c))
		s.chargeText(len(b.b) + len(t.s))
		b.add(t)
	}
	return b.text()
}

func (s *state) conditional(n *conditional, c *scope) Value {
	if truth(s.eval(n.test, c)) {
		return s.eval(n.yes, c)
	}
	if n.no == nil {
		return &undefined{what: "the inline if without an else"}
	}
	return s.eval(n.no, c)
}

// applyFilters applies a chain of filters, to v if the chain has no operand of its own.
func (s *state) applyFilters(n node, v Value, c *scope) Value {
	f, ok := n.(*filter)
	if !ok {
		return s.eval(n, c)
	}
	if f.of != nil {
		v = s.applyFilters(f.of, v, c)
	}
	a := s.arguments(f.args, c)
	s.line = f.at()
	return s.filter(f.name, v, a)
}
