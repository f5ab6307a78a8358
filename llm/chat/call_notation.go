package chat

import (
	"encoding/json"
	"strings"
)

// A notation is a way to write values that is similar to JSON: literals of Python, or with a mark around texts. Keys need no
// quotes, and any of {}, () and [] may surround a list of values, or of key-value pairs.
type notation struct {
	textMark string // around texts, without escapes; "": ' and " are, with Python's
}

// read reads arguments within {} or ().
func (o notation) read(text string, _ map[string]string, _ bool) (arguments string, n int) {
	w := notationWriter{notation: o}
	n = w.translate(text)
	return w.out.String(), n
}

// value returns a value in JSON.
func (o notation) value(text string) string {
	w := notationWriter{notation: o}
	w.translate(text + "\n")
	return w.out.String()
}

// A notationWriter translates a notation to JSON.
type notationWriter struct {
	notation
	out   strings.Builder
	depth []byte // ends in JSON of the values that are open
	comma bool   // precedes the next value
}

// translate writes a text as far as it is there, and returns the number of bytes of a whole value, 0 if it is not whole.
func (w *notationWriter) translate(text string) int {
	for at := 0; at < len(text); {
		c := text[at]
		switch c {
		case ' ', '\t', '\r', '\n':
			at++
			continue
		case ',':
			w.comma = len(w.depth) > 0
			at++
			continue
		case ':', '=':
			w.out.WriteString(": ")
			at++
			continue
		case '}', ')', ']':
			at++
			if n := len(w.depth); n > 0 {
				w.out.WriteByte(w.depth[n-1])
				w.depth, w.comma = w.depth[:n-1], false
			}
			if len(w.depth) == 0 {
				return at
			}
			continue
		}
		if w.comma {
			w.out.WriteString(", ")
			w.comma = false
		}
		n := 0
		switch {
		case c == '{', c == '(' && len(w.depth) == 0:
			w.open("{", '}')
			n = 1
		case c == '[', c == '(':
			w.open("[", ']')
			n = 1
		case w.textMark != "" && strings.HasPrefix(text[at:], w.textMark[:1]):
			n = w.marked(text[at:])
		case w.textMark == "" && (c == '"' || c == '\''):
			n = w.string(text[at:])
		default:
			n = w.word(text[at:])
		}
		if n == 0 {
			return 0
		}
		if at += n; len(w.depth) == 0 {
			return at
		}
	}
	return 0
}

func (w *notationWriter) open(begin string, end byte) {
	w.out.WriteString(begin)
	w.depth = append(w.depth, end)
}

// marked writes the text between two marks, as far as it is there.
func (w *notationWriter) marked(text string) int {
	inside, opened := strings.CutPrefix(text, w.textMark)
	if !opened {
		return 0
	}
	value, _, whole := strings.Cut(inside, w.textMark)
	if !whole {
		w.out.WriteString(strings.TrimSuffix(quoted(value[:len(value)-heldBack(value, w.textMark)]), `"`))
		return 0
	}
	w.out.WriteString(quoted(value))
	return len(value) + 2*len(w.textMark)
}

// pythonEscapes are those that JSON lacks or that have another meaning there.
var pythonEscapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': `"`, '\n': ""}

// string writes a whole string in quotes.
func (w *notationWriter) string(text string) int {
	var value strings.Builder
	for at := 1; at < len(text); at++ {
		switch c := text[at]; {
		case c == text[0]:
			w.out.WriteString(quoted(value.String()))
			return at + 1
		case c == '\\' && at+1 < len(text):
			at++
			if plain, ok := pythonEscapes[text[at]]; ok {
				value.WriteString(plain)
			} else {
				value.WriteString(text[at-1 : at+1])
			}
		default:
			value.WriteByte(c)
		}
	}
	return 0
}

// word writes a key, a number or a word, whose end is there.
func (w *notationWriter) word(text string) int {
	n := strings.IndexAny(text, " \t\r\n,:=[]{}()")
	if n < 0 {
		return 0
	}
	word := text[:n]
	switch word {
	case "True", "False":
		word = strings.ToLower(word)
	case "None":
		word = "null"
	}
	if key := strings.TrimLeft(text[n:], " \t\r\n"); strings.HasPrefix(key, ":") || strings.HasPrefix(key, "=") || !json.Valid([]byte(word)) {
		word = quoted(word)
	}
	w.out.WriteString(word)
	return n
}
