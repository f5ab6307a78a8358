package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxDepth bounds the nesting of a schema.
const maxDepth = 128

// An object is a JSON object with its keys in the order of the document. Other values are as
// encoding/json decodes them, with numbers as json.Number.
type object struct {
	keys   []string
	values map[string]any
}

func newObject() *object { return &object{values: map[string]any{}} }

func (o *object) set(key string, value any) {
	if _, has := o.values[key]; !has {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

func (o *object) has(key string) bool { _, has := o.values[key]; return has }

// readJSON reads a document of one value.
func readJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	value, err := readValue(d, 0)
	if err != nil {
		return nil, fmt.Errorf("the JSON schema is not valid JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("the JSON schema is not valid JSON: text follows its end")
	}
	return value, nil
}

func readValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d nested values", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, noEOF(err)
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.Token()
		return list, noEOF(err)
	case json.Delim('{'):
		o := newObject()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, noEOF(err)
			}
			value, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			o.set(key.(string), value)
		}
		_, err = d.Token()
		return o, noEOF(err)
	}
	return t, nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeJSON returns a value as JSON without blanks.
func writeJSON(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return quoteJSON(v)
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = writeJSON(x)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case *object:
		parts := make([]string, len(v.keys))
		for i, key := range v.keys {
			parts[i] = quoteJSON(key) + ":" + writeJSON(v.values[key])
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return fmt.Sprint(value) // a bool or a number
}

// quoteJSON returns a text as a JSON string, with escapes only where they must be.
func quoteJSON(text string) string { return quote(text, escapeJSON) }

// quote returns a text in quotation marks, with its characters escaped.
func quote(text string, escape func(rune) string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		b.WriteString(escape(r))
	}
	b.WriteByte('"')
	return b.String()
}

// escapeJSON returns a character as it stands in a JSON string.
func escapeJSON(r rune) string {
	if i := strings.IndexRune("\"\\\b\f\n\r\t", r); i >= 0 {
		return `\` + `"\bfnrt`[i:i+1]
	}
	if r < ' ' || r == 0x7F {
		return fmt.Sprintf(`\u%04x`, r)
	}
	return string(r)
}
