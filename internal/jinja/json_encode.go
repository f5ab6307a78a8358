package jinja

import (
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
)

// EncodeJSON encodes v as json.dumps does, with separators of items and of keys (keyword). Errors begin with name.
func EncodeJSON(name string, v Value, item, keyword string) (out string, err error) {
	defer catch(&err)
	w := &jsonWriter{s: &state{name: name, line: 1}, item: item, keyword: keyword}
	w.write(v, 0)
	return w.b.text().s, nil
}

// jsonWriter encodes values as json.dumps does.
type jsonWriter struct {
	s             *state
	b             textBuilder
	ascii         bool
	indent        *string
	item, keyword string // separators between items, and after keys
	sortKeys      bool
}

func (w *jsonWriter) write(v Value, level int) {
	w.s.charge(1)
	if level > maxDepth {
		w.s.fail("tojson: nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		w.b.addString("null")
	case bool:
		w.b.addString(strconv.FormatBool(v))
	case float64:
		w.b.addString(jsonFloat(v))
	case int64, *big.Int:
		w.b.add(str(v))
	case Text:
		w.s.chargeText(len(w.b.b) + len(v.s))
		w.b.add(w.quote(v))
	case *Dict:
		w.dict(v, level)
	case *Sequence:
		if v.kind > tupleKind {
			w.s.fail("Object of type %s is not JSON serializable", TypeName(v))
		}
		w.list(v.Items, level)
	default:
		w.s.fail("Object of type %s is not JSON serializable", TypeName(v))
	}
}

func jsonFloat(f float64) string { return floatText(f, "NaN", "Infinity") }

func (w *jsonWriter) quote(t Text) Text {
	t.safe = false
	return Concat(NewText(`"`), t.mapRunes(func(_ int, r rune) string {
		switch r {
		case '"':
			return `\"`
		case '\\':
			return `\\`
		case '\n':
			return `\n`
		case '\r':
			return `\r`
		case '\t':
			return `\t`
		case '\f':
			return `\f`
		case '\b':
			return `\b`
		}
		switch {
		case r < ' ', w.ascii && r >= 0x7f && r < 0x10000:
			return `\u` + hex(r, 4)
		case w.ascii && r >= 0x10000:
			high, low := utf16.EncodeRune(r)
			return `\u` + hex(high, 4) + `\u` + hex(low, 4)
		}
		return string(r)
	}), NewText(`"`))
}

// newLine begins an indented line.
func (w *jsonWriter) newLine(level int) {
	if w.indent != nil {
		w.b.addString("\n" + strings.Repeat(*w.indent, level))
	}
}

func (w *jsonWriter) list(items []Value, level int) {
	w.b.addString("[")
	for i, item := range items {
		if i > 0 {
			w.b.addString(w.item)
		}
		w.newLine(level + 1)
		w.write(item, level+1)
	}
	if len(items) > 0 {
		w.newLine(level)
	}
	w.b.addString("]")
}

func (w *jsonWriter) dict(m *Dict, level int) {
	keys := m.keys
	if w.sortKeys {
		keys = w.s.sorted(keys, func(k Value) Value { return k }, false)
	}
	w.b.addString("{")
	for i, k := range keys {
		if i > 0 {
			w.b.addString(w.item)
		}
		w.newLine(level + 1)
		w.b.add(w.quote(w.key(k)))
		w.b.addString(w.keyword)
		v, _ := m.item(k)
		w.write(v, level+1)
	}
	if len(keys) > 0 {
		w.newLine(level)
	}
	w.b.addString("}")
}

// key returns a key as json.dumps encodes it: numbers and constants become strings.
func (w *jsonWriter) key(k Value) Text {
	switch k := k.(type) {
	case Text:
		return k
	case nil:
		return NewText("null")
	case bool:
		return NewText(strconv.FormatBool(k))
	case float64:
		return NewText(jsonFloat(k))
	case int64, *big.Int:
		return str(k)
	}
	w.s.fail("keys must be str, int, float, bool or None, not %s", TypeName(k))
	return Text{}
}

// toJSON is transformers' filter tojson.
func (s *state) toJSON(v Value, a *arguments) Value {
	args := a.bind(s, "tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	w := &jsonWriter{s: s, item: ", ", keyword: ": "}
	w.ascii = truth(or(args[0], false))
	w.sortKeys = truth(or(args[3], false))
	switch indent := or(args[1], nil).(type) {
	case nil:
	case Text:
		w.indent = &indent.s
	default:
		n := s.clampedInt(indent, "an indent")
		s.chargeText(max(0, min(n, maxText+1)) << 4)
		spaces := strings.Repeat(" ", max(0, n))
		w.indent = &spaces
	}
	if w.indent != nil {
		w.item = ","
	}
	if separators := or(args[2], nil); separators != nil {
		pair := s.iterate(separators)
		if len(pair) != 2 {
			s.fail("separators are a pair")
		}
		w.item, w.keyword = s.needText(pair[0]).s, s.needText(pair[1]).s
	}
	w.write(v, 0)
	return w.b.text()
}
