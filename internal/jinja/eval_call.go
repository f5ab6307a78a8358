package jinja

import "github.com/goggml/ggml/internal/counted"

// arguments are the values of a call's arguments.
type arguments struct {
	positional []Value
	keywords   *Dict
}

func (s *state) arguments(n argumentNodes, c *scope) *arguments {
	a := &arguments{keywords: NewDict()}
	for _, arg := range n.args {
		a.positional = append(a.positional, s.eval(arg, c))
	}
	for i, name := range n.names {
		a.keywords.Set(name, s.eval(n.keywords[i], c))
	}
	if n.star != nil {
		a.positional = append(a.positional, s.iterate(s.eval(n.star, c))...)
	}
	if n.stars != nil {
		m, ok := s.eval(n.stars, c).(*Dict)
		if !ok {
			s.fail("what follows ** has to be a mapping")
		}
		a.keywords.update(m)
	}
	return a
}

// absent stands for an omitted argument.
type absent struct{}

// bind returns the values of params, given by position or name. The first `required` must be present.
func (a *arguments) bind(s *state, name string, required int, params ...string) []Value {
	if len(a.positional) > len(params) {
		s.fail("%s takes not more than %s, got %d", name, counted.Of(len(params), "argument"), len(a.positional))
	}
	values := make([]Value, len(params))
	used := 0
	for i, p := range params {
		v, named := a.keywords.Get(p)
		if named {
			used++
		}
		switch {
		case i < len(a.positional) && named:
			s.fail("%s got two values for %q", name, p)
		case i < len(a.positional):
			v = a.positional[i]
		case !named && i < required:
			s.fail("%s needs an argument %q", name, p)
		case !named:
			v = absent{}
		}
		values[i] = v
	}
	if used < len(a.keywords.keys) {
		s.fail("%s got an unexpected keyword argument in %s", name, repr(a.keywords).s)
	}
	return values
}

// or returns v, or preset if v is absent.
func or(v, preset Value) Value {
	if _, ok := v.(absent); ok {
		return preset
	}
	return v
}

// function is a function that templates can call.
type function struct {
	name string
	call func(s *state, a *arguments) Value
}

// method is a method of a value.
type method struct {
	of   Value
	name string
}

// call calls a function, a method, a macro or a recursive loop.
func (s *state) call(f Value, a *arguments) Value {
	s.charge(1)
	switch f := f.(type) {
	case *macro:
		return s.callMacro(f, a)
	case *function:
		return f.call(s, a)
	case *method:
		return s.callMethod(f, a)
	case *loopState:
		return s.recurse(f, a)
	}
	s.needDefined(f)
	s.fail("'%s' object is not callable", TypeName(f))
	return nil
}

func (s *state) callMethod(m *method, a *arguments) Value {
	switch of := m.of.(type) {
	case Text:
		s.charge(len(of.s) >> 6)
		out := stringMethods[m.name](s, of, a)
		if of.safe {
			return markSafe(out)
		}
		return out
	case *Dict:
		return dictMethods[m.name](s, of, a)
	case *Sequence:
		return s.callSequence(of, m.name, a)
	}
	s.fail("'%s' object has no method %q", TypeName(m.of), m.name)
	return nil
}

// markSafe marks strings returned by a method of a safe string as safe.
func markSafe(v Value) Value {
	switch v := v.(type) {
	case Text:
		v.safe = true
		return v
	case *Sequence:
		items := make([]Value, len(v.Items))
		for i, item := range v.Items {
			items[i] = markSafe(item)
		}
		return &Sequence{v.kind, items}
	}
	return v
}
