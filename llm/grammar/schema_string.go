package grammar

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// knownFormat returns the primitive of a schema's format, "" for one that says nothing here.
func knownFormat(o *object) string {
	switch format := o.values["format"]; format {
	case "date", "time", "date-time", "uuid":
		return format.(string)
	case "uuid1", "uuid2", "uuid3", "uuid4", "uuid5":
		return "uuid"
	}
	return ""
}

// string returns the rule of strings.
func (w *schemaWriter) string(o *object, path string) (string, error) {
	hasLength, format := o.has("minLength") || o.has("maxLength"), knownFormat(o)
	switch {
	case o.has("pattern") && hasLength:
		return "", fmt.Errorf("%s: pattern beside minLength or maxLength is unsupported; write the lengths in the pattern", at(path))
	case format != "" && (o.has("pattern") || hasLength):
		return "", fmt.Errorf("%s: the format %q beside pattern, minLength or maxLength is unsupported", at(path), format)
	case format != "":
		return w.rule(path, `"\"" `+w.use(format)+` "\""`)
	case o.has("pattern"):
		return w.pattern(o.values["pattern"], path)
	case !hasLength:
		return w.use("string"), nil
	}
	least, err := count(o, "minLength", path, 0)
	if err != nil {
		return "", err
	}
	most, err := count(o, "maxLength", path, noLimit)
	if err != nil {
		return "", err
	}
	if most != noLimit && most < least {
		return "", fmt.Errorf("%s: a string of at least %d and at most %d characters", at(path), least, most)
	}
	w.use("char")
	return w.rule(path, `"\"" char`+repeated(least, most)+` "\""`)
}

// pattern returns the rule of strings that match a regular expression of package regexp. As in JSON Schema, it may match anywhere
// in the string unless ^ and $ say otherwise.
func (w *schemaWriter) pattern(value any, path string) (string, error) {
	text, is := value.(string)
	if !is {
		return "", fmt.Errorf("%s: pattern is %s; it must be a text", at(path), writeJSON(value))
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return "", fmt.Errorf("%s: the pattern %q is unsupported: %w", at(path), text, err)
	}
	w.use("char")
	p := &pattern{}
	body := p.write(re, true, true)
	if p.err != nil {
		return "", fmt.Errorf("%s: the pattern %q is unsupported: %w", at(path), text, p.err)
	}
	return w.rule(path, `"\"" `+body+` "\""`)
}

// A pattern writes a regular expression as GBNF, for the characters of a JSON string.
type pattern struct{ err error }

// write returns the expression; left and right mean that it is at an end of the whole one, where any characters may be unless it
// has an anchor there.
func (p *pattern) write(re *syntax.Regexp, left, right bool) string {
	switch re.Op {
	case syntax.OpCapture:
		return p.write(re.Sub[0], left, right)
	case syntax.OpAlternate:
		return "(" + p.each(re.Sub, " | ", func(int) (bool, bool) { return left, right }) + ")"
	case syntax.OpConcat:
		return p.concat(re.Sub, left, right)
	case syntax.OpBeginText, syntax.OpEndText:
		return p.concat([]*syntax.Regexp{re}, left, right)
	}
	body := p.inner(re)
	if left {
		body = "char* " + body
	}
	if right {
		body += " char*"
	}
	return body
}

func (p *pattern) each(list []*syntax.Regexp, separator string, ends func(i int) (left, right bool)) string {
	parts := make([]string, len(list))
	for i, re := range list {
		left, right := ends(i)
		parts[i] = p.write(re, left, right)
	}
	return strings.Join(parts, separator)
}

// concat writes what follows one another, without the anchors at its ends.
func (p *pattern) concat(list []*syntax.Regexp, left, right bool) string {
	for left && len(list) > 0 && list[0].Op == syntax.OpBeginText {
		list, left = list[1:], false
	}
	for right && len(list) > 0 && list[len(list)-1].Op == syntax.OpEndText {
		list, right = list[:len(list)-1], false
	}
	if len(list) == 0 && (left || right) {
		return "char*"
	}
	if len(list) == 1 && (list[0].Op == syntax.OpBeginText || list[0].Op == syntax.OpEndText) {
		p.err = errors.New("^ and $ can only be at its ends")
		return ""
	}
	return p.each(list, " ", func(i int) (bool, bool) { return left && i == 0, right && i == len(list)-1 })
}

// inner writes an expression that has no anchor at its ends.
func (p *pattern) inner(re *syntax.Regexp) string {
	group := func() string { return "(" + p.write(re.Sub[0], false, false) + ")" }
	switch re.Op {
	case syntax.OpEmptyMatch:
		return `""`
	case syntax.OpLiteral:
		var b strings.Builder
		for _, r := range re.Rune {
			if re.Flags&syntax.FoldCase != 0 {
				b.WriteString(characters(foldings(r)) + " ")
			} else {
				b.WriteString(characters([]rune{r, r}) + " ")
			}
		}
		return strings.TrimSpace(b.String())
	case syntax.OpCharClass:
		return characters(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		if re.Op == syntax.OpAnyChar {
			return "char"
		}
		return characters([]rune{0, '\n' - 1, '\n' + 1, '\r' - 1, '\r' + 1, utf8.MaxRune})
	case syntax.OpStar:
		return group() + "*"
	case syntax.OpPlus:
		return group() + "+"
	case syntax.OpQuest:
		return group() + "?"
	case syntax.OpRepeat:
		return group() + repeated(re.Min, re.Max)
	}
	p.err = fmt.Errorf("there is no form for %s", re)
	return ""
}

// foldings returns the ranges of a character in both cases.
func foldings(r rune) []rune {
	lower, upper := []rune(strings.ToLower(string(r))), []rune(strings.ToUpper(string(r)))
	return []rune{lower[0], lower[0], upper[0], upper[0]}
}

// characters returns an element for the characters of ranges [lo, hi, …] as they stand in a JSON string: as themselves, or as the
// shortest escapes of those that need one.
func characters(ranges []rune) string {
	class, escaped := "", []string(nil)
	add := func(lo, hi rune) {
		switch {
		case lo > hi:
		case lo == hi:
			class += escapeGBNF(lo)
		default:
			class += escapeGBNF(lo) + "-" + escapeGBNF(hi)
		}
	}
	for i := 0; i < len(ranges); i += 2 {
		next := ranges[i]
		for r := ranges[i]; r <= min(ranges[i+1], 0x7F); r++ {
			if text := escapeJSON(r); text != string(r) {
				add(next, r-1)
				next = r + 1
				escaped = append(escaped, Literal(text))
			}
		}
		add(next, ranges[i+1])
	}
	if class != "" {
		escaped = append([]string{"[" + class + "]"}, escaped...)
	}
	switch len(escaped) {
	case 0:
		return `[\uD800]` // nothing
	case 1:
		return escaped[0]
	}
	return "(" + strings.Join(escaped, " | ") + ")"
}
