package jinja

import "slices"

type sequenceKind uint8

const (
	listKind sequenceKind = iota
	tupleKind
	rangeKind
	keysKind
	valuesKind
	itemsKind
)

var sequenceNames = [...]string{"list", "tuple", "range", "dict_keys", "dict_values", "dict_items"}

// Sequence is a list, a tuple, a range or a dict view.
type Sequence struct {
	kind  sequenceKind
	Items []Value
}

// NewList returns a list.
func NewList(items []Value) *Sequence { return &Sequence{listKind, items} }

func tuple(items ...Value) *Sequence { return &Sequence{tupleKind, items} }

func texts(parts []Text) *Sequence {
	items := make([]Value, len(parts))
	for i, p := range parts {
		items[i] = p
	}
	return NewList(items)
}

func (q *Sequence) isIndexable() bool { return q.kind <= rangeKind }

func (q *Sequence) attribute(name string) (Value, bool) {
	switch {
	case q.kind <= rangeKind && (name == "index" || name == "count"), q.kind == listKind && name == "copy":
		return &method{q, name}, true
	case q.kind == listKind && slices.Contains([]string{"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}, name):
		return forbidden(q, name), true
	}
	return nil, false
}

func (s *state) callSequence(q *Sequence, name string, a *arguments) Value {
	if name == "copy" {
		return NewList(slices.Clone(q.Items))
	}
	item := a.bind(s, name, 1, "value")[0]
	n := int64(0)
	for i, v := range q.Items {
		if !equal(v, item) {
			continue
		}
		if name == "index" {
			return int64(i)
		}
		n++
	}
	if name == "index" {
		s.fail("%s is not in list", repr(item).s)
	}
	return n
}

// generator is the result of map, select and similar filters: it is evaluated on first use and can be read once.
type generator struct {
	compute func() []Value
	rest    []Value
}

func (g *generator) items() []Value {
	if g.compute != nil {
		compute := g.compute
		g.compute = nil
		g.rest = compute()
	}
	items := g.rest
	g.rest = nil
	return items
}

// next returns the next item.
func (g *generator) next() (Value, bool) {
	items := g.items()
	if len(items) == 0 {
		return nil, false
	}
	g.rest = items[1:]
	return items[0], true
}
