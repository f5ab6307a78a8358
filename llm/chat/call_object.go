package chat

import (
	"encoding/json"
	"slices"
	"strings"
)

// Keys of calls that are JSON objects.
var (
	nameKeys      = []string{"name", "tool_name"}
	argumentsKeys = []string{"arguments", "parameters", "args"}
	otherKeys     = []string{"id", "tool_call_id", "call_id", "type", "index", "function"}
)

// A callObject is a call that is a JSON object, as far as it is there.
type callObject struct {
	nameIsKey bool // {name: arguments}
	strict    bool // has no other keys before its name

	name      string
	named     bool // the name is there
	arguments string
	failed    bool // the object is not a call
}

// read reads an object, and returns its size if it is whole, or how far it is one if it has failed.
func (o *callObject) read(text string) (n int, whole bool) {
	at := 1
	next := func() bool { // the next character that is not white space
		at += len(text[at:]) - len(strings.TrimLeft(text[at:], " \t\r\n"))
		return at < len(text)
	}
	for next() {
		switch text[at] {
		case '}':
			if o.named && o.arguments == "" {
				o.arguments = "{}"
			}
			return at + 1, true
		case ',':
			at++
			continue
		}
		key, n, whole := scanText(text[at:])
		if !whole {
			o.failed = n == 0
			return at, false
		}
		if at += n; !next() {
			break
		}
		if o.failed = text[at] != ':'; o.failed {
			return at, false
		}
		if at++; !next() {
			break
		}
		n, whole = scanJSON(text[at:])
		o.member(key, text[at:at+n], whole)
		if !whole || o.failed {
			return at, false
		}
		at += n
	}
	return at, false
}

// member reads a member of the object.
func (o *callObject) member(key, value string, whole bool) {
	isObject := strings.HasPrefix(value, "{")
	switch { // the first of several counts
	case o.nameIsKey && !o.named:
		o.name, o.named, o.arguments = key, true, value
	case key == "function" && isObject && !o.named && o.arguments == "":
		function := callObject{}
		function.read(value)
		o.name, o.named, o.arguments, o.failed = function.name, function.named, function.arguments, function.failed
	case slices.Contains(nameKeys, key) || key == "function":
		if whole && !o.named {
			name, _, isText := scanText(value)
			o.name, o.named, o.failed = name, isText, !isText
		}
	case slices.Contains(argumentsKeys, key):
		if o.arguments != "" {
			return
		}
		if isObject {
			o.arguments = value
		} else if inside, _, isText := scanText(value); isText { // JSON within JSON
			o.arguments = inside
		}
	case o.strict && !o.named && !slices.Contains(otherKeys, key):
		o.failed = true
	}
}

// scanJSON returns the size of the JSON value that a text begins with, as far as it is there.
func scanJSON(text string) (n int, whole bool) {
	depth, quoted, escaped := 0, false, false
	for i := range len(text) {
		c := text[i]
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped = c == '\\'
			if c == '"' {
				if quoted = false; depth == 0 {
					return i + 1, true
				}
			}
		case c == '"':
			quoted = true
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth == 0 { // the end of a number or a word
				return i, true
			}
			if depth--; depth == 0 {
				return i + 1, true
			}
		case depth == 0 && strings.IndexByte(" \t\r\n,", c) >= 0:
			return i, true
		}
	}
	return len(text), false
}

// scanText returns the JSON string that a text begins with, and its size: 0 if it begins with another value.
func scanText(text string) (value string, n int, whole bool) {
	if !strings.HasPrefix(text, `"`) {
		return "", 0, false
	}
	n, whole = scanJSON(text)
	return value, n, whole && json.Unmarshal([]byte(text[:n]), &value) == nil
}

// jsonArguments are a JSON object.
type jsonArguments struct{}

func (jsonArguments) read(text string, _ map[string]string, _ bool) (arguments string, n int) {
	n, whole := scanJSON(text)
	if !whole {
		return text, 0
	}
	return text[:n], n
}
