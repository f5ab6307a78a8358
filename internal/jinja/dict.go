package jinja

import (
	"iter"
	"math"
	"math/big"
	"slices"
)

// Dict is a Python dict: it keeps the insertion order of keys.
type Dict struct {
	keys   []Value
	values map[any]Value
	// Mark identifies a dict whose turns the program wants to know; 0 means none. The turn of a marked dict is the text
	// that a template writes while a loop is at the dict (or at a tuple that contains it), or after a {% set %} that
	// takes the dict by index in a loop over something else. That text has the mark as its [Origin.Turn].
	Mark int32
}

// NewDict returns an empty dict.
func NewDict() *Dict { return &Dict{values: map[any]Value{}} }

// hashKey returns a map key for k, equal for equal keys (1, 1.0 and true); false if k is unhashable.
func hashKey(k Value) (any, bool) {
	switch k := k.(type) {
	case Text:
		return k.s, true
	case bool:
		if k {
			return int64(1), true
		}
		return int64(0), true
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<62 {
			return int64(k), true
		}
		return k, true
	case *big.Int:
		return "\x00big:" + k.String(), true
	case *Sequence:
		if k.kind != tupleKind && k.kind != rangeKind {
			return nil, false
		}
		w := reprWriter{}
		w.write(k)
		return "\x00" + string(w.b.b), !w.unhashable
	case *Dict, *generator:
		return nil, false
	}
	return k, true
}

func (d *Dict) item(k Value) (Value, bool) {
	h, ok := hashKey(k)
	if !ok {
		return nil, false
	}
	v, ok := d.values[h]
	return v, ok
}

func (d *Dict) setItem(k, v Value) bool {
	h, ok := hashKey(k)
	if !ok {
		return false
	}
	if _, known := d.values[h]; !known {
		d.keys = append(d.keys, k)
	}
	d.values[h] = v
	return true
}

// Get returns the value of a key.
func (d *Dict) Get(k string) (Value, bool) {
	v, ok := d.values[k]
	return v, ok
}

// Set sets the value of a key.
func (d *Dict) Set(k string, v Value) { d.setItem(NewText(k), v) }

// Delete removes keys.
func (d *Dict) Delete(names ...string) {
	for _, name := range names {
		delete(d.values, name)
	}
	d.keys = slices.DeleteFunc(slices.Clone(d.keys), func(k Value) bool {
		_, left := d.item(k)
		return !left
	})
}

// Len returns the number of entries.
func (d *Dict) Len() int { return len(d.keys) }

// all yields the entries in order.
func (d *Dict) all() iter.Seq2[Value, Value] {
	return func(yield func(k, v Value) bool) {
		for _, k := range d.keys {
			v, _ := d.item(k)
			if !yield(k, v) {
				return
			}
		}
	}
}

// Fields yields the entries with string keys, in order.
func (d *Dict) Fields() iter.Seq2[string, Value] {
	return func(yield func(k string, v Value) bool) {
		for k, v := range d.all() {
			if t, ok := k.(Text); ok && !yield(t.s, v) {
				return
			}
		}
	}
}

// update copies all entries of another dict.
func (d *Dict) update(from *Dict) {
	for k, v := range from.all() {
		d.setItem(k, v)
	}
}

// Clone returns a shallow copy.
func (d *Dict) Clone() *Dict {
	c := NewDict()
	c.update(d)
	return c
}

func (d *Dict) view(kind sequenceKind) *Sequence {
	items := make([]Value, 0, len(d.keys))
	for k, v := range d.all() {
		switch kind {
		case keysKind:
			items = append(items, k)
		case valuesKind:
			items = append(items, v)
		default:
			items = append(items, tuple(k, v))
		}
	}
	return &Sequence{kind, items}
}

var dictMethods map[string]func(s *state, d *Dict, a *arguments) Value

func init() {
	view := func(kind sequenceKind) func(s *state, d *Dict, a *arguments) Value {
		return func(s *state, d *Dict, a *arguments) Value {
			a.bind(s, sequenceNames[kind], 0)
			s.charge(len(d.keys))
			return d.view(kind)
		}
	}
	dictMethods = map[string]func(s *state, d *Dict, a *arguments) Value{
		"keys": view(keysKind), "values": view(valuesKind), "items": view(itemsKind),
		"copy": func(_ *state, d *Dict, _ *arguments) Value { return d.Clone() },
		"get": func(s *state, d *Dict, a *arguments) Value {
			v := a.bind(s, "get", 1, "key", "default")
			if _, ok := hashKey(v[0]); !ok {
				s.fail("unhashable type: '%s'", TypeName(v[0]))
			}
			if found, ok := d.item(v[0]); ok {
				return found
			}
			return or(v[1], nil)
		},
	}
}
