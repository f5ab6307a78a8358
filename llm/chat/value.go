package chat

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// A value is one of Python's: nil (None), bool, int64, *big.Int (beyond 64 bits), float64, text, *sequence, *generator,
// *mapping, *namespace, *undefined, *loopState, *method, *macro or function.
type value any

// undefined is what a name without a value gives. Most that is done with it is an error.
type undefined struct {
	what   string // as an error says it
	unsafe bool   // an attribute that the sandbox keeps from templates
}

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

// sequence is a list, a tuple, a range or a view of a mapping.
type sequence struct {
	kind  sequenceKind
	items []value
}

func list(items []value) *sequence    { return &sequence{listKind, items} }
func tuple(items ...value) *sequence  { return &sequence{tupleKind, items} }
func (q *sequence) isIndexable() bool { return q.kind <= rangeKind }
func texts(parts []text) *sequence {
	items := make([]value, len(parts))
	for i, p := range parts {
		items[i] = p
	}
	return list(items)
}

// generator is what map, select and the like return: it is computed when first used, and can be read once.
type generator struct {
	compute func() []value
	rest    []value
}

func (g *generator) items() []value {
	if g.compute != nil {
		compute := g.compute
		g.compute = nil
		g.rest = compute()
	}
	items := g.rest
	g.rest = nil
	return items
}

// next gives the next item.
func (g *generator) next() (value, bool) {
	items := g.items()
	if len(items) == 0 {
		return nil, false
	}
	g.rest = items[1:]
	return items[0], true
}

// mapping is a dictionary of Python's: it keeps the order in which keys were set.
type mapping struct {
	keys    []value
	values  map[any]value
	message int32 // the message that it is, from 1; 0 if it is none
}

func newMapping() *mapping { return &mapping{values: map[any]value{}} }

// hashKey is by what equal keys are found: 1, 1.0 and true are one key. False for what cannot be a key.
func hashKey(k value) (any, bool) {
	switch k := k.(type) {
	case text:
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
	case *sequence:
		if k.kind != tupleKind && k.kind != rangeKind {
			return nil, false
		}
		w := reprWriter{}
		w.write(k)
		return "\x00" + string(w.b.b), !w.unhashable
	case *mapping, *generator:
		return nil, false
	}
	return k, true
}

func (m *mapping) set(k, v value) bool {
	h, ok := hashKey(k)
	if !ok {
		return false
	}
	if _, known := m.values[h]; !known {
		m.keys = append(m.keys, k)
	}
	m.values[h] = v
	return true
}

func (m *mapping) setString(k string, v value) { m.set(plain(k), v) }

func (m *mapping) get(k value) (value, bool) {
	h, ok := hashKey(k)
	if !ok {
		return nil, false
	}
	v, ok := m.values[h]
	return v, ok
}

func (m *mapping) getString(k string) (value, bool) {
	v, ok := m.values[k]
	return v, ok
}

func (m *mapping) view(kind sequenceKind) *sequence {
	items := make([]value, 0, len(m.keys))
	for _, k := range m.keys {
		v, _ := m.get(k)
		switch kind {
		case keysKind:
			items = append(items, k)
		case valuesKind:
			items = append(items, v)
		default:
			items = append(items, tuple(k, v))
		}
	}
	return &sequence{kind, items}
}

func (m *mapping) clone() *mapping {
	c := newMapping()
	for _, k := range m.keys {
		v, _ := m.get(k)
		c.set(k, v)
	}
	return c
}

// namespace is an object whose attributes can be set inside of loops.
type namespace struct{ attributes *mapping }

// function is a function that templates can call.
type function struct {
	name string
	call func(s *state, a *arguments) value
}

// method is a method of a value.
type method struct {
	of   value
	name string
}

func integer(i *big.Int) value {
	if i.IsInt64() {
		return i.Int64()
	}
	return i
}

// truth is bool() of Python's.
func truth(v value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case *big.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case text:
		return v.s != ""
	case *sequence:
		return len(v.items) > 0
	case *mapping:
		return len(v.keys) > 0
	case *undefined:
		return false
	}
	return true
}

// typeName is the name of Python's type.
func typeName(v value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case text:
		return "str"
	case *sequence:
		return sequenceNames[v.kind]
	case *generator:
		return "generator"
	case *mapping:
		return "dict"
	case *undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *macro:
		return "Macro"
	case *loopState:
		return "LoopContext"
	}
	return "function"
}

// str is str() of Python's.
func str(v value) text {
	switch v := v.(type) {
	case text:
		return v
	case *undefined:
		return text{}
	}
	return repr(v)
}

// repr is repr() of Python's.
func repr(v value) text {
	w := reprWriter{}
	w.write(v)
	return w.b.text()
}

// reprWriter writes what repr gives. A list can hold the same list twice, and that one another twice: what it writes is
// bounded.
type reprWriter struct {
	b          textBuilder
	depth      int
	unhashable bool // a list or a mapping was met
}

func (w *reprWriter) write(v value) {
	if len(w.b.b) > maxText || w.depth > maxDepth {
		fail("", 0, "a value of more than %d MB, or nested more than %d deep", maxText>>20, maxDepth)
	}
	switch v := v.(type) {
	case nil:
		w.b.addString("None")
	case bool:
		if v {
			w.b.addString("True")
		} else {
			w.b.addString("False")
		}
	case int64:
		w.b.addString(strconv.FormatInt(v, 10))
	case *big.Int:
		w.b.addString(v.String())
	case float64:
		w.b.addString(formatFloat(v))
	case text:
		if v.safe {
			w.b.add(concat(plain("Markup("), quote(v), plain(")")))
		} else {
			w.b.add(quote(v))
		}
	case *undefined:
		w.b.addString("Undefined")
	case *sequence:
		w.unhashable = w.unhashable || v.kind == listKind
		w.sequence(v)
	case *mapping:
		w.unhashable = true
		w.mapping(v)
	case *namespace:
		w.b.addString("<Namespace ")
		w.mapping(v.attributes)
		w.b.addString(">")
	case *macro:
		w.b.addString("<Macro " + quote(plain(v.name)).s + ">")
	case *loopState:
		w.b.addString("<LoopContext " + strconv.Itoa(v.index+1) + "/" + strconv.Itoa(len(v.items)) + ">")
	case *generator:
		w.b.addString("<generator object>")
	default:
		w.b.addString("<function>")
	}
}

func (w *reprWriter) sequence(q *sequence) {
	open, end := sequenceNames[q.kind]+"([", "])"
	switch {
	case q.kind == rangeKind:
		w.b.add(reprRange(q))
		return
	case q.kind == listKind:
		open, end = "[", "]"
	case q.kind == tupleKind && len(q.items) == 1:
		open, end = "(", ",)"
	case q.kind == tupleKind:
		open, end = "(", ")"
	}
	w.b.addString(open)
	w.depth++
	for i, item := range q.items {
		if i > 0 {
			w.b.addString(", ")
		}
		w.write(item)
	}
	w.depth--
	w.b.addString(end)
}

func (w *reprWriter) mapping(m *mapping) {
	w.b.addString("{")
	w.depth++
	for i, k := range m.keys {
		if i > 0 {
			w.b.addString(", ")
		}
		v, _ := m.get(k)
		w.write(k)
		w.b.addString(": ")
		w.write(v)
	}
	w.depth--
	w.b.addString("}")
}

func reprRange(q *sequence) text {
	if len(q.items) == 0 {
		return plain("range(0, 0)")
	}
	first, step := q.items[0].(int64), int64(1)
	if len(q.items) > 1 {
		step = q.items[1].(int64) - first
	}
	end := q.items[len(q.items)-1].(int64) + step
	if step == 1 {
		return plain("range(" + strconv.FormatInt(first, 10) + ", " + strconv.FormatInt(end, 10) + ")")
	}
	return plain("range(" + strconv.FormatInt(first, 10) + ", " + strconv.FormatInt(end, 10) + ", " + strconv.FormatInt(step, 10) + ")")
}

// quote is a string as Python writes it in code.
func quote(t text) text {
	q := "'"
	if strings.Contains(t.s, "'") && !strings.Contains(t.s, `"`) {
		q = `"`
	}
	t.safe = false
	return concat(plain(q), t.mapRunes(func(_ int, r rune) string {
		switch {
		case r == '\\' || string(r) == q:
			return `\` + string(r)
		case r == '\n':
			return `\n`
		case r == '\r':
			return `\r`
		case r == '\t':
			return `\t`
		case unicode.IsPrint(r):
			return string(r)
		case r < 0x100:
			return `\x` + hex(r, 2)
		case r < 0x10000:
			return `\u` + hex(r, 4)
		}
		return `\U` + hex(r, 8)
	}), plain(q))
}

func hex(r rune, digits int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", digits-len(s)) + s
}

// formatFloat is repr() of a float: the shortest digits, with an exponent from 1e16 and below 1e-4.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// remove deletes a key, which is a text.
func (m *mapping) remove(k string) {
	delete(m.values, k)
	for i, key := range m.keys {
		if t, ok := key.(text); ok && t.s == k {
			m.keys = append(m.keys[:i:i], m.keys[i+1:]...)
			return
		}
	}
}
