package data

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// fault is a fault at a byte of a record; a negative `at` means the record as a whole.
type fault struct {
	at     int
	kind   Kind
	reason string
	remedy string
	option Option
}

func faultf(kind Kind, remedy, format string, args ...any) *fault {
	return &fault{at: -1, kind: kind, reason: fmt.Sprintf(format, args...), remedy: remedy}
}

// by sets the option that applies the remedy.
func (f *fault) by(name, key, value string) *fault {
	f.option = Option{name, key, value}
	return f
}

// member is a key of a JSON object with its value.
type member struct {
	key   string
	value []byte
}

// maxDepth limits the recursion of the scanner.
const maxDepth = 200

// A jsonScanner validates JSON and locates its values. It is stricter than encoding/json, which
// silently replaces invalid UTF-8 and unpaired surrogates by U+FFFD and takes the last of duplicate
// keys.
type jsonScanner struct {
	data  []byte
	at    int
	depth int
}

// scanObject returns the members of an object, except those whose value is null.
func scanObject(data []byte) ([]member, *fault) {
	s := &jsonScanner{data: data}
	var members []member
	s.space()
	if s.peek() != '{' {
		return nil, s.unexpected("an object {…}")
	}
	if f := s.object(func(key string, value []byte) {
		if !isNull(value) {
			members = append(members, member{key, value})
		}
	}); f != nil {
		return nil, f
	}
	return members, s.end()
}

// scanList returns the items of a list.
func scanList(data []byte) ([][]byte, *fault) {
	s := &jsonScanner{data: data}
	var items [][]byte
	s.space()
	if f := s.list(func(item []byte) { items = append(items, item) }); f != nil {
		return nil, f
	}
	return items, s.end()
}

// end checks that only white space is left.
func (s *jsonScanner) end() *fault {
	if s.space(); s.at < len(s.data) {
		return s.fault(BadJSON, "", "more follows after the value")
	}
	return nil
}

func isNull(value []byte) bool { return string(value) == "null" }

func (s *jsonScanner) peek() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0
}

func (s *jsonScanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *jsonScanner) fault(kind Kind, remedy, format string, args ...any) *fault {
	return &fault{at: s.at, kind: kind, reason: fmt.Sprintf(format, args...), remedy: remedy}
}

func (s *jsonScanner) unexpected(want string) *fault {
	if s.at >= len(s.data) {
		return s.fault(Truncated, "", "it ends where %s is expected", want)
	}
	if s.data[s.at] == 0 {
		return s.fault(BadEncoding, "the file is damaged, or UTF-16: convert it to UTF-8", "a NUL byte")
	}
	r, size := utf8.DecodeRune(s.data[s.at:])
	if r == utf8.RuneError && size == 1 {
		return s.invalidUTF8()
	}
	return s.fault(BadJSON, "", "%s is expected, not %q", want, r)
}

func (s *jsonScanner) invalidUTF8() *fault {
	return s.fault(BadEncoding, "convert the file to UTF-8", "byte 0x%02x is not valid UTF-8", s.data[s.at])
}

// value skips a value and returns its bytes.
func (s *jsonScanner) value() ([]byte, *fault) {
	s.space()
	from := s.at
	var f *fault
	switch c := s.peek(); {
	case c == '{':
		f = s.object(nil)
	case c == '[':
		f = s.list(nil)
	case c == '"':
		f = s.text()
	case c == '-' || c >= '0' && c <= '9':
		f = s.number()
	default:
		f = s.word()
	}
	return s.data[from:s.at], f
}

func (s *jsonScanner) word() *fault {
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.at:], []byte(word)) {
			s.at += len(word)
			return nil
		}
		if rest := s.data[s.at:]; len(rest) > 0 && bytes.HasPrefix([]byte(word), rest) {
			s.at = len(s.data)
			return s.unexpected("the rest of " + word)
		}
	}
	return s.unexpected("a value")
}

func (s *jsonScanner) digits() bool {
	from := s.at
	for s.peek() >= '0' && s.peek() <= '9' {
		s.at++
	}
	return s.at > from
}

func (s *jsonScanner) number() *fault {
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else if !s.digits() {
		return s.unexpected("a digit")
	}
	if s.peek() == '.' {
		s.at++
		if !s.digits() {
			return s.unexpected("a digit")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		if !s.digits() {
			return s.unexpected("a digit")
		}
	}
	return nil
}

// text skips a string.
func (s *jsonScanner) text() *fault {
	s.at++
	from, ascii := s.at, true
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '"':
			if !ascii && !utf8.Valid(s.data[from:s.at]) {
				return s.firstInvalid(from)
			}
			s.at++
			return nil
		case c == '\\':
			if f := s.escape(); f != nil {
				return f
			}
		case c < ' ':
			if c == 0 {
				return s.unexpected("")
			}
			return s.fault(BadJSON, `write line ends as \n and tabs as \t`, "a control character %q in a string", c)
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return s.unexpected(`the " at the end of a string`)
}

func (s *jsonScanner) firstInvalid(from int) *fault {
	for s.at = from; ; {
		r, size := utf8.DecodeRune(s.data[s.at:])
		if r == utf8.RuneError && size == 1 {
			return s.invalidUTF8()
		}
		s.at += size
	}
}

// escape moves to the last byte of an escape.
func (s *jsonScanner) escape() *fault {
	if s.at+1 >= len(s.data) {
		s.at = len(s.data)
		return s.unexpected("the rest of an escape")
	}
	switch s.data[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at++
		return nil
	case 'u':
	default:
		return s.fault(BadJSON, `write a backslash as \\`, `\%c is not an escape`, s.data[s.at+1])
	}
	unit, ok := s.unit(s.at)
	if !ok {
		if s.at+6 > len(s.data) {
			s.at = len(s.data)
			return s.unexpected("the rest of an escape")
		}
		return s.fault(BadJSON, "", `\u is followed by four hexadecimal digits, not %q`, s.data[s.at+2:s.at+6])
	}
	if utf16.IsSurrogate(unit) {
		low, _ := s.unit(s.at + 6)
		if utf16.DecodeRune(unit, low) == utf8.RuneError {
			return s.fault(BadEncoding, "remove it", `%s is half of a surrogate pair, which is not a character`, s.data[s.at:s.at+6])
		}
		s.at += 6
	}
	s.at += 5
	return nil
}

// unit parses the escape \uXXXX at a byte.
func (s *jsonScanner) unit(at int) (rune, bool) {
	if at+6 > len(s.data) || s.data[at] != '\\' || s.data[at+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.data[at+2:at+6]), 16, 16)
	return rune(n), err == nil
}

// object skips an object and calls member for each key.
func (s *jsonScanner) object(member func(key string, value []byte)) *fault {
	var keys keySet
	return s.each('}', func() *fault {
		s.space()
		if s.peek() != '"' {
			return s.unexpected("a key in quotes")
		}
		from := s.at
		if f := s.text(); f != nil {
			return f
		}
		quoted := s.data[from:s.at]
		if !keys.add(quoted) {
			s.at = from
			return s.fault(DuplicateKey, "remove one of them", "key %s is given twice", quoted)
		}
		s.space()
		if s.peek() != ':' {
			return s.unexpected("a colon")
		}
		s.at++
		value, f := s.value()
		if f == nil && member != nil {
			member(stringOf(quoted), value)
		}
		return f
	})
}

// list skips a list and calls item for each item.
func (s *jsonScanner) list(item func(value []byte)) *fault {
	return s.each(']', func() *fault {
		value, f := s.value()
		if f == nil && item != nil {
			item(value)
		}
		return f
	})
}

// each skips to the closing bracket, and calls next at the beginning of each item.
func (s *jsonScanner) each(closing byte, next func() *fault) *fault {
	if s.depth++; s.depth > maxDepth {
		return s.fault(BadJSON, "", "it is nested more than %d deep", maxDepth)
	}
	defer func() { s.depth-- }()
	s.at++
	s.space()
	if s.peek() == closing {
		s.at++
		return nil
	}
	for {
		if f := next(); f != nil {
			return f
		}
		s.space()
		switch s.peek() {
		case ',':
			s.at++
		case closing:
			s.at++
			return nil
		default:
			return s.unexpected("a comma or " + string(closing))
		}
	}
}

// keySet holds the keys of one object. There are few, so a list is faster than a map.
type keySet struct {
	list [][]byte
	many map[string]bool
}

// add reports whether a quoted key is new.
func (k *keySet) add(quoted []byte) bool {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		quoted = []byte(`"` + stringOf(quoted) + `"`)
	}
	if k.many != nil {
		known := k.many[string(quoted)]
		k.many[string(quoted)] = true
		return !known
	}
	for _, known := range k.list {
		if bytes.Equal(known, quoted) {
			return false
		}
	}
	if k.list = append(k.list, quoted); len(k.list) > 16 {
		k.many = map[string]bool{}
		for _, key := range k.list {
			k.many[string(key)] = true
		}
	}
	return true
}

// stringOf returns the text of a scanned string.
func stringOf(quoted []byte) string {
	rest := quoted[1 : len(quoted)-1]
	at := bytes.IndexByte(rest, '\\')
	if at < 0 {
		return string(rest)
	}
	text := make([]byte, 0, len(rest))
	for ; at >= 0; at = bytes.IndexByte(rest, '\\') {
		text = append(text, rest[:at]...)
		if rest = rest[at+1:]; rest[0] != 'u' {
			text = append(text, unescaped[rest[0]])
			rest = rest[1:]
			continue
		}
		r := hexadecimal(rest[1:5])
		rest = rest[5:]
		if utf16.IsSurrogate(r) {
			r = utf16.DecodeRune(r, hexadecimal(rest[2:6]))
			rest = rest[6:]
		}
		text = utf8.AppendRune(text, r)
	}
	return string(append(text, rest...))
}

// unescaped maps the character of a short escape to its value.
var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func hexadecimal(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits), 16, 16) // validated by the scanner
	return rune(n)
}

// typeOf names the type of a JSON value.
func typeOf(value []byte) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a bool"
	case 'n':
		return "null"
	}
	return "a number"
}
