package jinja

import "github.com/goggml/ggml/internal/counted"

// macro is a macro with its defining scope.
type macro struct {
	*macroDef
	scope *scope
}

func (s *state) callBlock(n *callBlock, c *scope) Value {
	f := s.eval(n.call.of, c)
	a := s.arguments(n.call.args, c)
	a.keywords.Set("caller", &macro{n.caller, c})
	return s.call(f, a)
}

// callMacro runs a macro and returns its text.
func (s *state) callMacro(m *macro, a *arguments) Value {
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

// bindMacro binds a macro's parameters.
func (s *state) bindMacro(m *macro, a *arguments, c *scope) {
	rest := a.keywords.Clone()
	take := func(name string) (Value, bool) {
		v, ok := rest.Get(name)
		if ok {
			rest.Delete(name)
		}
		return v, ok
	}
	caller, hasCaller := Value(nil), false
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

func (m *macro) attribute(name string) (Value, bool) {
	switch name {
	case "name":
		return NewText(m.name), true
	case "arguments":
		var names []Value
		for _, p := range m.params {
			names = append(names, NewText(p.name))
		}
		return tuple(names...), true
	case "caller":
		return m.used["caller"], true
	}
	return nil, false
}
