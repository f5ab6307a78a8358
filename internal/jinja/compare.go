package jinja

import "strings"

// equal is Python's ==.
func equal(a, b Value) bool {
	c := comparer{}
	return c.equal(a, b, 0)
}

// comparer counts comparisons: nested lists that repeat an element represent exponentially many.
type comparer struct{ compared int }

func (c *comparer) equal(a, b Value, depth int) bool {
	c.compared++
	if c.compared > maxSteps/10 || depth > maxDepth {
		fail("", 0, "values of more than %d items, or nested more than %d deep, are compared", maxSteps/10, maxDepth)
	}
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b) == 0
	}
	switch a := a.(type) {
	case Text:
		b, ok := b.(Text)
		return ok && a.s == b.s
	case *undefined:
		return isType[*undefined](b)
	case *Sequence:
		b, ok := b.(*Sequence)
		if !ok || a.kind != b.kind || len(a.Items) != len(b.Items) {
			return false
		}
		for i := range a.Items {
			if !c.equal(a.Items[i], b.Items[i], depth+1) {
				return false
			}
		}
		return true
	case *Dict:
		b, ok := b.(*Dict)
		return ok && c.equalDicts(a, b, depth)
	}
	return a == b
}

func (c *comparer) equalDicts(a, b *Dict, depth int) bool {
	if len(a.keys) != len(b.keys) {
		return false
	}
	for k, x := range a.all() {
		y, ok := b.item(k)
		if !ok || !c.equal(x, y, depth+1) {
			return false
		}
	}
	return true
}

// compare orders a and b as Python's <, and returns 2 if they are unordered.
func (s *state) compare(a, b Value, op string) int {
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b)
	}
	switch a := a.(type) {
	case Text:
		if b, ok := b.(Text); ok {
			return strings.Compare(a.s, b.s) // UTF-8 sorts like code points
		}
	case *Sequence:
		if b, ok := b.(*Sequence); ok && a.kind == b.kind && a.kind <= tupleKind {
			return s.compareItems(a.Items, b.Items, op)
		}
	}
	s.needDefined(a)
	s.needDefined(b)
	s.fail("'%s' not supported between instances of '%s' and '%s'", op, TypeName(a), TypeName(b))
	return 0
}

func (s *state) compareItems(a, b []Value, op string) int {
	for i := range min(len(a), len(b)) {
		if !equal(a[i], b[i]) {
			return s.compare(a[i], b[i], op)
		}
	}
	return compareNumbers(int64(len(a)), int64(len(b)))
}

// contains is `item in container`.
func (s *state) contains(container, item Value) bool {
	switch c := container.(type) {
	case Text:
		s.charge(len(c.s) >> 6)
		t, ok := item.(Text)
		if !ok {
			s.needDefined(item)
			s.fail("'in <string>' requires string as left operand, not %s", TypeName(item))
		}
		return strings.Contains(c.s, t.s)
	case *Dict:
		_, ok := c.item(item)
		if _, hashable := hashKey(item); !hashable {
			s.fail("unhashable type: '%s'", TypeName(item))
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
