package jinja

// signal tells how a body ended.
type signal uint8

const (
	noSignal signal = iota
	breakSignal
	continueSignal
)

// exec runs statements.
func (s *state) exec(body []node, c *scope) signal {
	for _, n := range body {
		if sig := s.statement(n, c); sig != noSignal {
			return sig
		}
	}
	return noSignal
}

func (s *state) statement(n node, c *scope) signal {
	s.line = n.at()
	s.charge(1)
	switch n := n.(type) {
	case *output:
		if n.exprs == nil {
			s.emit(NewText(n.data))
		}
		for _, expr := range n.exprs {
			s.emit(s.str(s.eval(expr, c)))
		}
	case *ifElse:
		return s.ifElse(n, c)
	case *forLoop:
		return s.forLoop(n, c)
	case *set:
		v := s.eval(n.value, c)
		s.startTurn(v)
		s.assign(n.target, v, c)
	case *setBlock:
		s.setBlock(n, c)
	case *macroDef:
		c.set(n.name, &macro{n, c})
	case *callBlock:
		s.emit(s.str(s.callBlock(n, c)))
	case *filterBlock:
		t := s.capture(func() { s.exec(n.body, &scope{parent: c}) })
		s.emit(s.str(s.applyFilters(n.filter, t, c)))
	case *withBlock:
		s.with(n, c)
	case *block:
		if n.escape != nil && truth(s.eval(n.escape, c)) {
			s.fail("autoescape is not supported: chat templates are rendered without it")
		}
		return s.exec(n.body, &scope{parent: c})
	case *generation:
		s.generation(n, c)
	case *jump:
		return n.signal
	case *unsupported:
		s.fail("%s needs another template, and a chat template has none", n.tag)
	}
	return noSignal
}

func (s *state) ifElse(n *ifElse, c *scope) signal {
	for i, test := range n.tests {
		if truth(s.eval(test, c)) {
			return s.exec(n.bodies[i], c)
		}
	}
	if len(n.bodies) > len(n.tests) {
		return s.exec(n.bodies[len(n.tests)], c)
	}
	return noSignal
}

// namespace is an object whose attributes can be set inside loops.
type namespace struct{ attributes *Dict }

// assign assigns a value to a name, to the names in a tuple, or to an attribute of a namespace.
func (s *state) assign(target node, v Value, c *scope) {
	switch target := target.(type) {
	case *variable:
		c.set(target.name, v)
	case *namespaceRef:
		ns, _ := c.get(target.name)
		n, ok := ns.(*namespace)
		if !ok {
			s.fail("cannot assign attribute %q on an object that is not a namespace", target.attribute)
		}
		s.setAttribute(n, target.attribute, v)
	case *collection:
		items := s.iterate(v)
		if len(items) != len(target.items) {
			s.fail("%d values expected to unpack, got %d", len(target.items), len(items))
		}
		for i, t := range target.items {
			s.assign(t, items[i], c)
		}
	}
}

func (s *state) setAttribute(n *namespace, name string, v Value) {
	if name[0] == '_' {
		s.fail("a namespace's attribute cannot begin with an underscore: %q", name)
	}
	if t, ok := v.(Text); ok && s.turn != 0 { // a text built in several turns
		s.charge(len(t.runs))
		v = t.inTurn(s.turn)
	}
	n.attributes.Set(name, v)
}

func (s *state) setBlock(n *setBlock, c *scope) {
	var v Value = s.capture(func() { s.exec(n.body, &scope{parent: c}) })
	if n.filter != nil {
		v = s.applyFilters(n.filter, v, c)
	}
	s.assign(n.target, v, c)
}

func (s *state) with(n *withBlock, c *scope) {
	inner := &scope{parent: c}
	for i, target := range n.targets {
		s.assign(target, s.eval(n.values[i], c), inner)
	}
	s.exec(n.body, inner)
}

// generation runs a generation tag and records the range of its text as transformers' AssistantTracker does, from the
// end of the template's output so far. Inside a macro, that is where the macro's text will begin.
func (s *state) generation(n *generation, c *scope) {
	from := len(s.top.b)
	t := s.capture(func() { s.exec(n.body, &scope{parent: c}) })
	s.generated = append(s.generated, Range{from, from + len(t.s)})
	s.emit(t)
}
