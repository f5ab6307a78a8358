package chat

import (
	"math/big"

	"github.com/goggml/ggml/internal/counted"
)

// eval evaluates an expression.
func (s *state) eval(n node, c *scope) value {
	s.charge(1)
	s.line = n.at()
	switch n := n.(type) {
	case *constant:
		return n.value
	case *variable:
		return s.lookup(n.name, c)
	case *collection:
		items := make([]value, len(n.items))
		for i, item := range n.items {
			items[i] = s.eval(item, c)
		}
		return &sequence{n.kind, items}
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

func (s *state) lookup(name string, c *scope) value {
	if v, ok := c.get(name); ok {
		return v
	}
	if f, ok := globals[name]; ok {
		return f
	}
	return &undefined{what: "'" + name + "'"}
}

func (s *state) dictionary(n *dictionary, c *scope) value {
	m := newMapping()
	for i, key := range n.keys {
		k := s.eval(key, c)
		if !m.set(k, s.eval(n.values[i], c)) {
			s.fail("unhashable type: '%s'", typeName(k))
		}
	}
	return m
}

func (s *state) unary(n *unary, c *scope) value {
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
		s.fail("bad operand type for unary +: '%s'", typeName(v))
	}
	return v
}

func (s *state) operator(n *binary, c *scope) value {
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

func (s *state) comparison(n *comparison, c *scope) value {
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

func (s *state) compares(op string, a, b value) bool {
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

func (s *state) concatenation(n *concatenation, c *scope) value {
	var b textBuilder
	for _, part := range n.parts {
		t := s.str(s.eval(part, c))
		s.chargeText(len(b.b) + len(t.s))
		b.add(t)
	}
	return b.text()
}

func (s *state) conditional(n *conditional, c *scope) value {
	if truth(s.eval(n.test, c)) {
		return s.eval(n.yes, c)
	}
	if n.no == nil {
		return &undefined{what: "the inline if without an else"}
	}
	return s.eval(n.no, c)
}

// subscript is value[index], value[from:to:step].
func (s *state) subscript(n *subscript, c *scope) value {
	of := s.eval(n.of, c)
	if r, ok := n.index.(*sliceRange); ok {
		return s.slice(of, r, c)
	}
	index := s.eval(n.index, c)
	s.line = n.at()
	return s.item(of, index)
}

// item is value[index], or the attribute of that name.
func (s *state) item(of, index value) value {
	s.needDefined(of)
	if v, ok := s.tryItem(of, index); ok {
		return v
	}
	if name, ok := index.(text); ok {
		if v, ok := s.tryAttribute(of, name.s); ok {
			return v
		}
	}
	return s.missing(of, repr(index).s)
}

// attribute is value.name, or the item of that key.
func (s *state) attribute(of value, name string) value {
	s.needDefined(of)
	if v, ok := s.tryAttribute(of, name); ok {
		return v
	}
	if v, ok := s.tryItem(of, plain(name)); ok {
		return v
	}
	return s.missing(of, "'"+name+"'")
}

func (s *state) missing(of value, name string) value {
	return &undefined{what: "'" + typeName(of) + " object' has no attribute " + name + ": it"}
}

func (s *state) tryItem(of, index value) (value, bool) {
	switch of := of.(type) {
	case *mapping:
		return of.get(index)
	case *sequence:
		if !of.isIndexable() {
			return nil, false
		}
		i, ok := position(index, len(of.items))
		if !ok {
			return nil, false
		}
		return of.items[i], true
	case text:
		s.charge(len(of.s) >> 6)
		i, ok := position(index, of.length())
		if !ok {
			return nil, false
		}
		t := of.slice(of.offset(i), of.offset(i+1))
		return t, true
	}
	return nil, false
}

// position is an index, which counts from the end if it is negative.
func position(index value, n int) (int, bool) {
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

func (s *state) slice(of value, r *sliceRange, c *scope) value {
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
	case *sequence:
		if of.isIndexable() {
			var items []value
			s.charge(len(of.items) >> 3)
			for _, i := range indices(from, to, by, len(of.items)) {
				items = append(items, of.items[i])
			}
			return &sequence{of.kind, items}
		}
	case text:
		return s.sliceText(of, from, to, by)
	}
	return s.missing(of, "slice")
}

func (s *state) sliceText(t text, from, to *int, step int) value {
	n := t.length()
	s.charge(n >> 6)
	if step == 1 {
		a, b := bounds(from, to, 1, n)
		return t.slice(t.offset(a), t.offset(max(a, b)))
	}
	var starts []int
	for i := range t.s {
		starts = append(starts, i)
	}
	starts = append(starts, len(t.s))
	var b textBuilder
	for _, i := range indices(from, to, step, n) {
		b.add(t.slice(starts[i], starts[i+1]))
	}
	return b.text()
}

// bounds are the first index of a slice and the one behind its last, as slice.indices of Python's.
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

// clampedInt is an integer, cut to what an index needs.
func (s *state) clampedInt(v value, what string) int {
	s.needDefined(v)
	i, ok := toInt(v)
	if !ok {
		s.fail("%s must be integers, not '%s'", what, typeName(v))
	}
	limit := big.NewInt(1 << 40)
	if i.CmpAbs(limit) > 0 {
		return int(limit.Int64()) * i.Sign()
	}
	return int(i.Int64())
}

// arguments are those of one call.
type arguments struct {
	positional []value
	keywords   *mapping
}

func (s *state) arguments(n argumentNodes, c *scope) *arguments {
	a := &arguments{keywords: newMapping()}
	for _, arg := range n.args {
		a.positional = append(a.positional, s.eval(arg, c))
	}
	for i, name := range n.names {
		a.keywords.setString(name, s.eval(n.keywords[i], c))
	}
	if n.star != nil {
		a.positional = append(a.positional, s.iterate(s.eval(n.star, c))...)
	}
	if n.stars != nil {
		m, ok := s.eval(n.stars, c).(*mapping)
		if !ok {
			s.fail("what follows ** has to be a mapping")
		}
		for _, k := range m.keys {
			v, _ := m.get(k)
			a.keywords.set(k, v)
		}
	}
	return a
}

// absent stands for an argument that was left out.
type absent struct{}

// bind gives the values of parameters by position or name; the first `required` of them must be there.
func (a *arguments) bind(s *state, name string, required int, params ...string) []value {
	if len(a.positional) > len(params) {
		s.fail("%s takes not more than %s, got %d", name, counted.Of(len(params), "argument"), len(a.positional))
	}
	values := make([]value, len(params))
	used := 0
	for i, p := range params {
		v, named := a.keywords.getString(p)
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

// or is v, or the default if v was left out.
func or(v, preset value) value {
	if _, ok := v.(absent); ok {
		return preset
	}
	return v
}

// call calls a function, a method, a macro or a recursive loop.
func (s *state) call(f value, a *arguments) value {
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
	s.fail("'%s' object is not callable", typeName(f))
	return nil
}

// applyFilters applies a chain of filters; its first operand is v if the chain has none of its own.
func (s *state) applyFilters(n node, v value, c *scope) value {
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
