package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeJSON reads a value as Python's json does: mappings keep their order, integers stay integers, of a key that is
// given twice the last value counts.
func decodeJSON(data []byte) (value, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	if at := loneSurrogate(data); at >= 0 {
		return nil, fmt.Errorf("offset %d: half of a surrogate pair, which is no character", at)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("offset %d: more follows after the value", d.InputOffset())
	}
	return v, nil
}

// loneSurrogate is the offset of an escape that is half of a surrogate pair, or -1.
func loneSurrogate(data []byte) int {
	for i := 0; i < len(data)-1; i++ {
		if data[i] != '\\' {
			continue
		}
		i++
		high, ok := escapedUnit(data, i)
		if !ok || !utf16.IsSurrogate(high) {
			continue
		}
		low := rune(0)
		if i+5 < len(data) && data[i+5] == '\\' {
			low, _ = escapedUnit(data, i+6)
		}
		if utf16.DecodeRune(high, low) == utf8.RuneError {
			return i - 1
		}
		i += 10
	}
	return -1
}

// escapedUnit reads uXXXX at i.
func escapedUnit(data []byte, i int) (rune, bool) {
	if i+5 > len(data) || data[i] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(data[i+1:i+5]), 16, 16)
	return rune(n), err == nil
}

func decodeValue(d *json.Decoder, depth int) (value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("offset %d: nested more than %d deep", d.InputOffset(), maxDepth)
	}
	t, err := d.Token()
	if err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case string:
		return plain(t), nil
	case json.Number:
		return decodeNumber(string(t))
	case json.Delim:
		if t == '[' {
			return decodeList(d, depth)
		}
		return decodeMapping(d, depth)
	}
	return t, nil // null, true, false
}

func decodeNumber(s string) (value, error) {
	if !strings.ContainsAny(s, ".eE") {
		i, ok := new(big.Int), false
		if len(s) <= maxBits { // a longer one takes its time
			i, ok = i.SetString(s, 10)
		}
		if !ok || i.BitLen() > maxBits {
			return nil, fmt.Errorf("a number of more than %d bits", maxBits)
		}
		return integer(i), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, err
	}
	return f, nil
}

func decodeList(d *json.Decoder, depth int) (value, error) {
	items := []value{}
	for d.More() {
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	_, err := d.Token()
	return list(items), err
}

func decodeMapping(d *json.Decoder, depth int) (value, error) {
	m := newMapping()
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		m.setString(k.(string), v)
	}
	_, err := d.Token()
	return m, err
}

// jsonWriter writes a value as json.dumps does.
type jsonWriter struct {
	s             *state
	b             textBuilder
	ascii         bool
	indent        *string
	item, keyword string // separators
	sortKeys      bool
}

func (w *jsonWriter) write(v value, level int) {
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
	case text:
		w.s.chargeText(len(w.b.b) + len(v.s))
		w.b.add(w.quote(v))
	case *mapping:
		w.mapping(v, level)
	case *sequence:
		if v.kind > tupleKind {
			w.s.fail("Object of type %s is not JSON serializable", typeName(v))
		}
		w.list(v.items, level)
	default:
		w.s.fail("Object of type %s is not JSON serializable", typeName(v))
	}
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return formatFloat(f)
}

func (w *jsonWriter) quote(t text) text {
	t.safe = false
	return concat(plain(`"`), t.mapRunes(func(_ int, r rune) string {
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
	}), plain(`"`))
}

// newLine begins a line of indented JSON.
func (w *jsonWriter) newLine(level int) {
	if w.indent != nil {
		w.b.addString("\n" + strings.Repeat(*w.indent, level))
	}
}

func (w *jsonWriter) list(items []value, level int) {
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

func (w *jsonWriter) mapping(m *mapping, level int) {
	keys := m.keys
	if w.sortKeys {
		keys = w.s.sorted(keys, func(k value) value { return k }, false)
	}
	w.b.addString("{")
	for i, k := range keys {
		if i > 0 {
			w.b.addString(w.item)
		}
		w.newLine(level + 1)
		w.b.add(w.quote(w.key(k)))
		w.b.addString(w.keyword)
		v, _ := m.get(k)
		w.write(v, level+1)
	}
	if len(keys) > 0 {
		w.newLine(level)
	}
	w.b.addString("}")
}

// key is a key as json.dumps writes it: numbers and constants become strings.
func (w *jsonWriter) key(k value) text {
	switch k := k.(type) {
	case text:
		return k
	case nil:
		return plain("null")
	case bool:
		return plain(strconv.FormatBool(k))
	case float64:
		return plain(jsonFloat(k))
	case int64, *big.Int:
		return str(k)
	}
	w.s.fail("keys must be str, int, float, bool or None, not %s", typeName(k))
	return text{}
}

// toJSON is the filter tojson of transformers.
func (s *state) toJSON(v value, a *arguments) value {
	args := a.bind(s, "tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	w := &jsonWriter{s: s, item: ", ", keyword: ": "}
	w.ascii = truth(or(args[0], false))
	w.sortKeys = truth(or(args[3], false))
	switch indent := or(args[1], nil).(type) {
	case nil:
	case text:
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
