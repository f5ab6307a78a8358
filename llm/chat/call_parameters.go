package chat

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// parameters describes calls that enclose each argument in marks of its own.
type parameters struct {
	begin  *regexp.Regexp // of a parameter, with the group key
	key    int
	kinds  []int  // groups that say whether the value is a text
	suffix string // of a value, optional
	close  string // of a parameter
	end    *regexp.Regexp
}

// newParameters returns the arguments of marks before a value, before close if it is there, behind a value, and behind the
// last parameter.
func newParameters(begin, suffix, close, end string) *parameters {
	p := &parameters{begin: regexp.MustCompile(`^\s*` + begin), suffix: suffix, close: close, end: regexp.MustCompile(`^\s*` + end)}
	p.key = p.begin.SubexpIndex("key")
	for _, name := range []string{"isText", "type"} {
		if i := p.begin.SubexpIndex(name); i >= 0 {
			p.kinds = append(p.kinds, i)
		}
	}
	return p
}

func (p *parameters) read(text string, types map[string]string, ended bool) (arguments string, n int) {
	out := "{"
	for at := 0; ; {
		rest := text[at:]
		if n := len(p.end.FindString(rest)); n > 0 {
			return out + "}", at + n
		}
		begin := p.begin.FindStringSubmatch(rest)
		switch {
		case begin != nil:
		case len(rest) < maxHeader || ended:
			return out, 0
		default: // no parameter follows
			return out + "}", max(1, at)
		}
		separator := ""
		if out != "{" {
			separator = ", "
		}
		key, isText := begin[p.key], p.isText(begin, types)
		value, rest, whole := strings.Cut(rest[len(begin[0]):], p.close)
		switch {
		case whole:
			out += separator + quoted(key) + ": " + p.value(value, isText, types[key])
			at = len(text) - len(rest)
			continue
		case isText:
			value = value[:len(value)-heldBack(value, p.close, p.suffix+p.close)]
			out += separator + quoted(key) + ": " + strings.TrimSuffix(quoted(value), `"`)
		}
		return out, 0
	}
}

// isText reports whether a value is a text by its mark-up or by the tool's schema.
func (p *parameters) isText(begin []string, types map[string]string) bool {
	for _, i := range p.kinds {
		if begin[i] != "" {
			return begin[i] == "true" || begin[i] == "string"
		}
	}
	return types[begin[p.key]] == "string"
}

// value returns a value in JSON. What neither is a text nor has a type is JSON if it can be.
func (p *parameters) value(text string, isText bool, kind string) string {
	text = strings.TrimSuffix(text, p.suffix)
	if isText {
		return quoted(text)
	}
	plain := strings.TrimSpace(text)
	switch {
	case json.Valid([]byte(plain)):
		return plain
	case kind == "" && !strings.HasPrefix(plain, "{") && !strings.HasPrefix(plain, "["):
		return quoted(text)
	}
	if python := (notation{}).value(plain); json.Valid([]byte(python)) {
		return python
	}
	return quoted(text)
}

// quoted returns a text as a JSON string. The string of a beginning of the text begins the string.
func quoted(text string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(text) != nil { // a string can be encoded
		return `""`
	}
	return strings.TrimSuffix(out.String(), "\n")
}
