package chat

import (
	"math"
	"math/big"
	"strings"
)

// isNumber reports whether v is a number of Python's, which a bool is too.
func isNumber(v value) bool {
	switch v.(type) {
	case bool, int64, *big.Int, float64:
		return true
	}
	return false
}

// toInt is v as an integer if it is one, or a bool.
func toInt(v value) (*big.Int, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	case int64:
		return big.NewInt(v), true
	case *big.Int:
		return v, true
	}
	return nil, false
}

func toFloat(v value) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	i, _ := toInt(v)
	f, _ := new(big.Float).SetInt(i).Float64()
	return f
}

// equal is == of Python's.
func equal(a, b value) bool {
	c := comparer{}
	return c.equal(a, b, 0)
}

// comparer counts what it compares: a list can hold the same list twice, and that one another twice.
type comparer struct{ compared int }

func (c *comparer) equal(a, b value, depth int) bool {
	c.compared++
	if c.compared > maxSteps/10 || depth > maxDepth {
		fail("", 0, "values of more than %d items, or nested more than %d deep, are compared", maxSteps/10, maxDepth)
	}
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b) == 0
	}
	switch a := a.(type) {
	case text:
		b, ok := b.(text)
		return ok && a.s == b.s
	case *undefined:
		return isType[*undefined](b)
	case *sequence:
		b, ok := b.(*sequence)
		if !ok || a.kind != b.kind || len(a.items) != len(b.items) {
			return false
		}
		for i := range a.items {
			if !c.equal(a.items[i], b.items[i], depth+1) {
				return false
			}
		}
		return true
	case *mapping:
		b, ok := b.(*mapping)
		return ok && c.equalMappings(a, b, depth)
	}
	return a == b
}

func (c *comparer) equalMappings(a, b *mapping, depth int) bool {
	if len(a.keys) != len(b.keys) {
		return false
	}
	for _, k := range a.keys {
		x, _ := a.get(k)
		y, ok := b.get(k)
		if !ok || !c.equal(x, y, depth+1) {
			return false
		}
	}
	return true
}

// compareNumbers is -1, 0 or 1; 2 if one of them is not a number.
func compareNumbers(a, b value) int {
	x, isInt := toInt(a)
	y, both := toInt(b)
	if isInt && both {
		return x.Cmp(y)
	}
	f, g := toFloat(a), toFloat(b)
	switch {
	case f < g:
		return -1
	case f > g:
		return 1
	case f == g:
		return 0
	}
	return 2
}

// compare orders a and b as < of Python's does; 2 if neither is less, greater or equal.
func (s *state) compare(a, b value, op string) int {
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b)
	}
	switch a := a.(type) {
	case text:
		if b, ok := b.(text); ok {
			return strings.Compare(a.s, b.s) // the order of UTF-8 is that of code points
		}
	case *sequence:
		if b, ok := b.(*sequence); ok && a.kind == b.kind && a.kind <= tupleKind {
			return s.compareItems(a.items, b.items, op)
		}
	}
	s.needDefined(a)
	s.needDefined(b)
	s.fail("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	return 0
}

func (s *state) compareItems(a, b []value, op string) int {
	for i := range min(len(a), len(b)) {
		if !equal(a[i], b[i]) {
			return s.compare(a[i], b[i], op)
		}
	}
	return compareNumbers(int64(len(a)), int64(len(b)))
}

// binary applies an operator of two operands.
func (s *state) binary(op string, a, b value) value {
	s.needDefined(a)
	s.needDefined(b)
	if isNumber(a) && isNumber(b) {
		return s.number(op, a, b)
	}
	switch x := a.(type) {
	case text:
		switch op {
		case "+":
			if y, ok := b.(text); ok {
				return s.addTexts(x, y)
			}
			s.fail(`can only concatenate str (not "%s") to str`, typeName(b))
		case "%":
			return s.percent(x, b)
		}
	case *sequence:
		if y, ok := b.(*sequence); ok && op == "+" && x.kind == y.kind && x.kind <= tupleKind {
			s.charge(len(x.items) + len(y.items))
			items := make([]value, 0, len(x.items)+len(y.items))
			return &sequence{x.kind, append(append(items, x.items...), y.items...)}
		}
	case *mapping:
		if y, ok := b.(*mapping); ok && op == "|" {
			return s.union(x, y)
		}
	}
	if op == "*" {
		if v, ok := s.repeat(a, b); ok {
			return v
		}
	}
	s.fail("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	return nil
}

func (s *state) addTexts(a, b text) value {
	if a.safe != b.safe { // Markup escapes what is added to it
		if a.safe {
			b = escapeHTML(b)
		} else {
			a = escapeHTML(a)
		}
	}
	s.chargeText(len(a.s) + len(b.s))
	t := concat(a, b)
	t.safe = a.safe || b.safe
	return t
}

func (s *state) union(a, b *mapping) value {
	m := a.clone()
	for _, k := range b.keys {
		v, _ := b.get(k)
		m.set(k, v)
	}
	return m
}

// repeat is a text or a list times a number.
func (s *state) repeat(a, b value) (value, bool) {
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
	case text:
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
	case *sequence:
		if x.kind > tupleKind {
			return nil, false
		}
		if len(x.items) == 0 {
			return x, true
		}
		s.charge(min(count, maxSteps) * len(x.items))
		var items []value
		for range count {
			items = append(items, x.items...)
		}
		return &sequence{x.kind, items}, true
	}
	return nil, false
}

func (s *state) number(op string, a, b value) value {
	x, isInt := toInt(a)
	y, both := toInt(b)
	if isInt && both && op != "/" && !(op == "**" && y.Sign() < 0) {
		return s.integers(op, x, y)
	}
	f, g := toFloat(a), toFloat(b)
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "**":
		if f == 0 && g < 0 {
			s.fail("zero cannot be raised to a negative power")
		}
		power := math.Pow(f, g)
		if math.IsInf(power, 0) && !math.IsInf(f, 0) && !math.IsInf(g, 0) || math.IsNaN(power) && !math.IsNaN(f) && !math.IsNaN(g) {
			s.fail("numerical result of ** out of range")
		}
		return power
	}
	if g == 0 {
		s.fail("division by zero")
	}
	switch op {
	case "/":
		return f / g
	case "//":
		return math.Floor((f - floorMod(f, g)) / g)
	case "%":
		return floorMod(f, g)
	}
	s.fail("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	return nil
}

// floorMod is % of floats: the result has the sign of g.
func floorMod(f, g float64) float64 {
	r := math.Mod(f, g)
	if r != 0 && (r < 0) != (g < 0) {
		r += g
	}
	return math.Copysign(r, g)
}

// maxBits bounds integers: a template has no use for longer ones.
const maxBits = 4096

func (s *state) integers(op string, x, y *big.Int) value {
	out := new(big.Int)
	switch op {
	case "+":
		out.Add(x, y)
	case "-":
		out.Sub(x, y)
	case "*":
		out.Mul(x, y)
	case "**":
		if x.BitLen() > 1 && (y.BitLen() > 16 || int64(x.BitLen())*y.Int64() > maxBits) {
			s.fail("a number of more than %d bits", maxBits)
		}
		out.Exp(x, y, nil)
	case "//", "%":
		if y.Sign() == 0 {
			s.fail("integer division or modulo by zero")
		}
		q, r := new(big.Int).QuoRem(x, y, new(big.Int))
		if r.Sign() != 0 && (r.Sign() < 0) != (y.Sign() < 0) {
			q.Sub(q, big.NewInt(1))
			r.Add(r, y)
		}
		out = q
		if op == "%" {
			out = r
		}
	default:
		s.fail("unsupported operand type(s) for %s: 'int' and 'int'", op)
	}
	if out.BitLen() > maxBits {
		s.fail("a number of more than %d bits", maxBits)
	}
	return integer(out)
}

// negate is -v.
func (s *state) negate(v value) value {
	s.needDefined(v)
	if f, ok := v.(float64); ok {
		return -f
	}
	i, ok := toInt(v)
	if !ok {
		s.fail("bad operand type for unary -: '%s'", typeName(v))
	}
	return integer(new(big.Int).Neg(i))
}

// contains is `item in container`.
func (s *state) contains(container, item value) bool {
	switch c := container.(type) {
	case text:
		s.charge(len(c.s) >> 6)
		t, ok := item.(text)
		if !ok {
			s.needDefined(item)
			s.fail("'in <string>' requires string as left operand, not %s", typeName(item))
		}
		return strings.Contains(c.s, t.s)
	case *mapping:
		_, ok := c.get(item)
		if _, hashable := hashKey(item); !hashable {
			s.fail("unhashable type: '%s'", typeName(item))
		}
		return ok
	case *namespace:
		s.fail("argument of type 'Namespace' is not iterable")
	}
	for _, v := range s.iterate(container) {
		if equal(v, item) {
			return true
		}
	}
	return false
}
