package chat

import "github.com/goggml/ggml/internal/counted"

// signal says how a body ended.
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
			s.emit(plain(n.data))
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

// str is str() of a value, counted.
func (s *state) str(v value) text {
	t := str(v)
	s.charge(len(t.s) >> 6)
	return t
}

// startTurn begins the turn of a message that is looked up by its index in a loop, unless the loop is over messages.
func (s *state) startTurn(v value) {
	if m := messageOf(v); m != 0 && s.loops > 0 && !s.hasTurn {
		s.turn, s.hasTurn = m, true
	}
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

func (s *state) forLoop(n *forLoop, c *scope) signal {
	return s.loop(n, c, s.eval(n.iterable, c), 0)
}

// loop runs a loop over the items of a value, at a depth of recursion.
func (s *state) loop(n *forLoop, c *scope, over value, depth int) signal {
	items := s.iterate(over)
	if n.filter != nil {
		items = s.filterItems(n, c, items)
	}
	state := &loopState{items: items, depth: depth, loop: n, scope: c}
	turn, hasTurn := s.turn, s.hasTurn
	completed := false // a body ran to its end: Jinja takes the else otherwise, after a break too
	s.loops++
	for i, item := range items {
		s.charge(8) // what a scope and its names cost
		state.index = i
		s.turn, s.hasTurn = turn, false
		s.startTurn(item)
		inner := &scope{parent: c}
		inner.set("loop", state)
		s.assign(n.target, item, inner)
		sig := s.exec(n.body, inner)
		if sig == breakSignal {
			break
		}
		completed = completed || sig == noSignal
	}
	s.turn, s.hasTurn = turn, hasTurn
	s.loops--
	if !completed {
		return s.exec(n.none, &scope{parent: c})
	}
	return noSignal
}

func (s *state) filterItems(n *forLoop, c *scope, items []value) []value {
	var kept []value
	for _, item := range items {
		inner := &scope{parent: c}
		s.assign(n.target, item, inner)
		if truth(s.eval(n.filter, inner)) {
			kept = append(kept, item)
		}
	}
	return kept
}

// assign gives a value to a name, to the names of a tuple, or to an attribute of a namespace.
func (s *state) assign(target node, v value, c *scope) {
	switch target := target.(type) {
	case *variable:
		c.set(target.name, v)
	case *namespaceRef:
		ns, _ := c.get(target.name)
		n, ok := ns.(*namespace)
		if !ok {
			s.fail("cannot assign attribute %q on an object that is no namespace", target.attribute)
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

func (s *state) setAttribute(n *namespace, name string, v value) {
	if name[0] == '_' {
		s.fail("a namespace's attribute cannot begin with an underscore: %q", name)
	}
	if t, ok := v.(text); ok && s.turn != 0 { // a text that is put together in turns
		s.charge(len(t.runs))
		v = t.inTurn(s.turn)
	}
	n.attributes.setString(name, v)
}

func (s *state) setBlock(n *setBlock, c *scope) {
	var v value = s.capture(func() { s.exec(n.body, &scope{parent: c}) })
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

// generation runs a generation tag and notes where its text lies, as transformers' AssistantTracker does: from the end
// of what the template has put out so far. Inside of a macro that is where the macro's text will begin.
func (s *state) generation(n *generation, c *scope) {
	from := len(s.top.b)
	t := s.capture(func() { s.exec(n.body, &scope{parent: c}) })
	s.generated = append(s.generated, byteRange{from, from + len(t.s)})
	s.emit(t)
}

// macro is a macro with the scope that it was defined in.
type macro struct {
	*macroDef
	scope *scope
}

func (s *state) callBlock(n *callBlock, c *scope) value {
	f := s.eval(n.call.of, c)
	a := s.arguments(n.call.args, c)
	a.keywords.setString("caller", &macro{n.caller, c})
	return s.call(f, a)
}

// callMacro runs a macro and gives its text.
func (s *state) callMacro(m *macro, a *arguments) value {
	s.depth++
	defer func() { s.depth-- }()
	if s.depth > maxDepth {
		s.fail("macros call one another more than %d deep", maxDepth)
	}
	inner := &scope{parent: m.scope}
	s.bindMacro(m, a, inner)
	line, loops := s.line, s.loops
	t := s.capture(func() { s.exec(m.body, inner) })
	s.line, s.loops = line, loops
	return t
}

// bindMacro gives a macro's parameters their values.
func (s *state) bindMacro(m *macro, a *arguments, c *scope) {
	rest := a.keywords.clone()
	take := func(name string) (value, bool) {
		v, ok := rest.getString(name)
		if ok {
			rest.remove(name)
		}
		return v, ok
	}
	caller, hasCaller := value(nil), false
	isParameter := false
	for i, p := range m.params {
		isParameter = isParameter || p.name == "caller"
		v, named := take(p.name)
		switch {
		case i < len(a.positional) && named:
			s.fail("macro %q got two values for %q", m.name, p.name)
		case i < len(a.positional):
			v = a.positional[i]
		case named:
		case p.preset != nil:
			v = s.eval(p.preset, c)
		default:
			v = &undefined{what: "parameter '" + p.name + "'"}
		}
		c.set(p.name, v)
	}
	if m.used["caller"] && !isParameter {
		if caller, hasCaller = take("caller"); !hasCaller {
			caller = &undefined{what: "no caller defined: 'caller'"}
		}
		c.set("caller", caller)
	}
	if m.used["kwargs"] {
		c.set("kwargs", rest)
	} else if len(rest.keys) > 0 {
		s.fail("macro %q takes no keyword argument %s", m.name, repr(rest.keys[0]).s)
	}
	extra := a.positional[min(len(m.params), len(a.positional)):]
	if m.used["varargs"] {
		c.set("varargs", tuple(extra...))
	} else if len(extra) > 0 {
		s.fail("macro %q takes not more than %s", m.name, counted.Of(len(m.params), "argument"))
	}
}

// loopState is the variable loop.
type loopState struct {
	items   []value
	index   int
	depth   int
	loop    *forLoop
	scope   *scope
	changed value // the arguments of the last call of changed
}

// recurse runs a recursive loop over other items.
func (s *state) recurse(l *loopState, a *arguments) value {
	if !l.loop.recursive {
		s.fail("the loop has to be marked recursive to be called")
	}
	v := a.bind(s, "loop", 1, "iterable")
	s.depth++
	defer func() { s.depth-- }()
	if s.depth > maxDepth {
		s.fail("loops call one another more than %d deep", maxDepth)
	}
	return s.capture(func() { s.loop(l.loop, l.scope, v[0], l.depth+1) })
}

func (l *loopState) attribute(name string) (value, bool) {
	n, i := len(l.items), l.index
	switch name {
	case "index":
		return int64(i + 1), true
	case "index0":
		return int64(i), true
	case "revindex":
		return int64(n - i), true
	case "revindex0":
		return int64(n - i - 1), true
	case "first":
		return i == 0, true
	case "last":
		return i == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(l.depth + 1), true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		if i == 0 {
			return &undefined{what: "there is no previous item: it"}, true
		}
		return l.items[i-1], true
	case "nextitem":
		if i == n-1 {
			return &undefined{what: "there is no next item: it"}, true
		}
		return l.items[i+1], true
	case "cycle":
		return &function{name, func(s *state, a *arguments) value {
			if len(a.positional) == 0 {
				s.fail("no items to cycle through")
			}
			return a.positional[l.index%len(a.positional)]
		}}, true
	case "changed":
		return &function{name, func(_ *state, a *arguments) value {
			was := l.changed
			l.changed = tuple(a.positional...)
			return was == nil || !equal(was, l.changed)
		}}, true
	}
	return nil, false
}
