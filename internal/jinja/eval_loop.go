package jinja

func (s *state) forLoop(n *forLoop, c *scope) signal {
	return s.loop(n, c, s.eval(n.iterable, c), 0)
}

// loop runs a loop over the items of a value, at a recursion depth.
func (s *state) loop(n *forLoop, c *scope, over Value, depth int) signal {
	items := s.iterate(over)
	if n.filter != nil {
		items = s.filterItems(n, c, items)
	}
	state := &loopState{items: items, depth: depth, loop: n, scope: c}
	turn, hasTurn := s.turn, s.hasTurn
	completed := false // whether a body ran to its end; otherwise Jinja runs the else, even after a break
	s.loops++
	for i, item := range items {
		s.charge(8) // cost of a scope and its names
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

func (s *state) filterItems(n *forLoop, c *scope, items []Value) []Value {
	var kept []Value
	for _, item := range items {
		inner := &scope{parent: c}
		s.assign(n.target, item, inner)
		if truth(s.eval(n.filter, inner)) {
			kept = append(kept, item)
		}
	}
	return kept
}

// loopState is the variable "loop".
type loopState struct {
	items   []Value
	index   int
	depth   int
	loop    *forLoop
	scope   *scope
	changed Value // arguments of the last call of loop.changed
}

// recurse runs a recursive loop over new items.
func (s *state) recurse(l *loopState, a *arguments) Value {
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

func (l *loopState) attribute(name string) (Value, bool) {
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
		return &function{name, func(s *state, a *arguments) Value {
			if len(a.positional) == 0 {
				s.fail("no items to cycle through")
			}
			return a.positional[l.index%len(a.positional)]
		}}, true
	case "changed":
		return &function{name, func(_ *state, a *arguments) Value {
			was := l.changed
			l.changed = tuple(a.positional...)
			return was == nil || !equal(was, l.changed)
		}}, true
	}
	return nil, false
}
