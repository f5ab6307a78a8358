package jinja

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str().
func str(v Value) Text {
	switch v := v.(type) {
	case Text:
		return v
	case *undefined:
		return Text{}
	}
	return repr(v)
}

func repr(v Value) Text {
	w := reprWriter{}
	w.write(v)
	return w.b.text()
}

// Repr is Python's repr().
func Repr(v Value) string { return repr(v).s }

// reprWriter writes repr(v). Its output is limited: nested lists that repeat an element print exponentially much.
type reprWriter struct {
	b          textBuilder
	depth      int
	unhashable bool // met a list or a dict
}

func (w *reprWriter) write(v Value) {
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
	case Text:
		if v.safe {
			w.b.add(Concat(NewText("Markup("), quote(v), NewText(")")))
		} else {
			w.b.add(quote(v))
		}
	case *undefined:
		w.b.addString("Undefined")
	case *Sequence:
		w.unhashable = w.unhashable || v.kind == listKind
		w.sequence(v)
	case *Dict:
		w.unhashable = true
		w.dict(v)
	case *namespace:
		w.b.addString("<Namespace ")
		w.dict(v.attributes)
		w.b.addString(">")
	case *macro:
		w.b.addString("<Macro " + quote(NewText(v.name)).s + ">")
	case *loopState:
		w.b.addString("<LoopContext " + strconv.Itoa(v.index+1) + "/" + strconv.Itoa(len(v.items)) + ">")
	case *generator:
		w.b.addString("<generator object>")
	default:
		w.b.addString("<function>")
	}
}

func (w *reprWriter) sequence(q *Sequence) {
	open, end := sequenceNames[q.kind]+"([", "])"
	switch {
	case q.kind == rangeKind:
		w.b.add(reprRange(q))
		return
	case q.kind == listKind:
		open, end = "[", "]"
	case q.kind == tupleKind && len(q.Items) == 1:
		open, end = "(", ",)"
	case q.kind == tupleKind:
		open, end = "(", ")"
	}
	w.b.addString(open)
	w.depth++
	for i, item := range q.Items {
		if i > 0 {
			w.b.addString(", ")
		}
		w.write(item)
	}
	w.depth--
	w.b.addString(end)
}

func (w *reprWriter) dict(m *Dict) {
	w.b.addString("{")
	w.depth++
	for i, k := range m.keys {
		if i > 0 {
			w.b.addString(", ")
		}
		v, _ := m.item(k)
		w.write(k)
		w.b.addString(": ")
		w.write(v)
	}
	w.depth--
	w.b.addString("}")
}

func reprRange(q *Sequence) Text {
	if len(q.Items) == 0 {
		return NewText("range(0, 0)")
	}
	first, step := q.Items[0].(int64), int64(1)
	if len(q.Items) > 1 {
		step = q.Items[1].(int64) - first
	}
	end := q.Items[len(q.Items)-1].(int64) + step
	if step == 1 {
		return NewText("range(" + strconv.FormatInt(first, 10) + ", " + strconv.FormatInt(end, 10) + ")")
	}
	return NewText("range(" + strconv.FormatInt(first, 10) + ", " + strconv.FormatInt(end, 10) + ", " + strconv.FormatInt(step, 10) + ")")
}

// quote returns a string as a Python literal.
func quote(t Text) Text {
	q := "'"
	if strings.Contains(t.s, "'") && !strings.Contains(t.s, `"`) {
		q = `"`
	}
	t.safe = false
	return Concat(NewText(q), t.mapRunes(func(_ int, r rune) string {
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
	}), NewText(q))
}

func hex(r rune, digits int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", digits-len(s)) + s
}
