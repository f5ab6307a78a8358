package chat

import (
	"fmt"
	"math"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A filterFunc gives v|name(arguments).
type filterFunc func(s *state, v value, a *arguments) value

var filters map[string]filterFunc

func init() {
	filters = map[string]filterFunc{
		"abs": (*state).abs, "attr": (*state).attr, "batch": (*state).batch, "slice": (*state).sliceFilter,
		"capitalize": textFilter(capitalize), "title": textFilter(words), "upper": textFilter(upper), "lower": textFilter(lower),
		"string": textFilter(func(t text) text { return t }), "center": (*state).center,
		"count": (*state).lengthFilter, "length": (*state).lengthFilter,
		"d": (*state).preset, "default": (*state).preset, "dictsort": (*state).dictsort, "items": (*state).itemsFilter,
		"e": (*state).escape, "escape": (*state).escape, "forceescape": (*state).forceEscape,
		"safe":  func(s *state, v value, _ *arguments) value { t := s.str(v); t.safe = true; return t },
		"first": (*state).first, "last": (*state).last, "float": (*state).floatFilter, "int": (*state).intFilter,
		"format": (*state).formatFilter, "groupby": (*state).groupBy, "indent": (*state).indent, "join": (*state).joinFilter,
		"list": func(s *state, v value, _ *arguments) value { return list(slices.Clone(s.iterate(v))) },
		"map":  (*state).mapFilter, "min": extreme("min", -1), "max": extreme("max", 1),
		"select": selection("select", true, false), "reject": selection("reject", false, false),
		"selectattr": selection("selectattr", true, true), "rejectattr": selection("rejectattr", false, true),
		"replace": (*state).replaceFilter, "reverse": (*state).reverse, "round": (*state).round, "sort": (*state).sort,
		"sum": (*state).sum, "tojson": (*state).toJSON, "trim": (*state).trim, "truncate": (*state).truncate,
		"unique": (*state).unique, "urlencode": (*state).urlEncode, "wordcount": (*state).wordCount,
		"striptags": (*state).stripTags, "xmlattr": (*state).xmlAttributes, "filesizeformat": (*state).fileSize,
	}
}

func (s *state) filter(name string, v value, a *arguments) value {
	f, ok := filters[name]
	if !ok {
		s.fail("no filter named %q", name)
	}
	s.charge(1)
	return f(s, v, a)
}

func textFilter(f func(text) text) filterFunc {
	return func(s *state, v value, a *arguments) value {
		a.bind(s, "the filter", 0)
		t := s.str(v)
		out := f(t)
		out.safe = t.safe
		return out
	}
}

func (s *state) abs(v value, _ *arguments) value {
	s.needDefined(v)
	if f, ok := v.(float64); ok {
		return math.Abs(f)
	}
	i, ok := toInt(v)
	if !ok {
		s.fail("bad operand type for abs(): '%s'", typeName(v))
	}
	return integer(new(big.Int).Abs(i))
}

func (s *state) attr(v value, a *arguments) value {
	name := s.needText(a.bind(s, "attr", 1, "name")[0]).s
	s.needDefined(v)
	if found, ok := s.tryAttribute(v, name); ok {
		return found
	}
	return s.missing(v, "'"+name+"'")
}

func (s *state) center(v value, a *arguments) value {
	width := or(a.bind(s, "center", 0, "width")[0], int64(80))
	return s.callMethod(&method{s.str(v), "center"}, &arguments{[]value{width}, newMapping()})
}

func (s *state) preset(v value, a *arguments) value {
	args := a.bind(s, "default", 0, "default_value", "boolean")
	_, isUndefined := v.(*undefined)
	if isUndefined || truth(or(args[1], false)) && !truth(v) {
		return or(args[0], text{})
	}
	return v
}

// escapeHTML is markupsafe.escape.
func escapeHTML(t text) text {
	if t.safe {
		return t
	}
	out := t.mapRunes(func(_ int, r rune) string {
		switch r {
		case '&':
			return "&amp;"
		case '<':
			return "&lt;"
		case '>':
			return "&gt;"
		case '\'':
			return "&#39;"
		case '"':
			return "&#34;"
		}
		return string(r)
	})
	out.safe = true
	return out
}

func (s *state) escape(v value, _ *arguments) value { return escapeHTML(s.str(v)) }

func (s *state) forceEscape(v value, _ *arguments) value {
	t := s.str(v)
	t.safe = false
	return escapeHTML(t)
}

func (s *state) floatFilter(v value, a *arguments) value {
	preset := or(a.bind(s, "float", 0, "default")[0], 0.0)
	if u, ok := v.(*undefined); ok {
		s.needDefined(u)
	}
	if f, ok := parseFloat(v); ok {
		return f
	}
	return preset
}

// parseFloat is float() of Python's.
func parseFloat(v value) (float64, bool) {
	if isNumber(v) {
		return toFloat(v), true
	}
	t, ok := v.(text)
	if !ok {
		return 0, false
	}
	digits := strings.TrimFunc(t.s, isSpace)
	if strings.ContainsAny(digits, "xXpP") || strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(digits, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

func (s *state) intFilter(v value, a *arguments) value {
	args := a.bind(s, "int", 0, "default", "base")
	preset := or(args[0], int64(0))
	s.needDefined(v)
	if i, ok := toInt(v); ok {
		return integer(i)
	}
	if t, ok := v.(text); ok {
		base := s.clampedInt(or(args[1], int64(10)), "a base")
		if i, ok := parseInt(t.s, base); ok {
			return integer(i)
		}
	}
	f, ok := parseFloat(v)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return preset
	}
	i, _ := big.NewFloat(math.Trunc(f)).Int(nil)
	return integer(i)
}

// parseInt is int() of Python's of a string.
func parseInt(s string, base int) (*big.Int, bool) {
	s = strings.TrimFunc(s, isSpace)
	if strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") || len(s) > maxBits/4 {
		return nil, false
	}
	s = strings.ReplaceAll(s, "_", "")
	if prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" {
		sign := ""
		if s != "" && (s[0] == '-' || s[0] == '+') {
			sign, s = s[:1], s[1:]
		}
		if len(s) > 2 && strings.EqualFold(s[:2], prefix) {
			s = s[2:]
		}
		s = sign + s
	}
	if base != 0 && (base < 2 || base > 36) {
		return nil, false
	}
	return new(big.Int).SetString(s, base)
}

func (s *state) formatFilter(v value, a *arguments) value {
	t := s.str(v)
	if len(a.keywords.keys) == 0 {
		return s.percent(t, tuple(a.positional...))
	}
	if len(a.positional) > 0 {
		s.fail("format takes positional or keyword arguments, not both")
	}
	return s.percent(t, a.keywords)
}

func (s *state) indent(v value, a *arguments) value {
	args := a.bind(s, "indent", 0, "width", "first", "blank")
	t := s.needText(v)
	indention, isText := or(args[0], int64(4)).(text)
	if !isText {
		n := s.clampedInt(or(args[0], int64(4)), "a width")
		s.chargeText(max(0, min(n, maxText+1)))
		indention = plain(strings.Repeat(" ", max(0, n)))
	}
	lines := concat(t, plain("\n")).splitLines(false)
	s.chargeText(len(t.s) + len(lines)*len(indention.s))
	blank := truth(or(args[2], false))
	var b textBuilder
	for i, line := range lines {
		if i > 0 {
			b.addString("\n")
		}
		if i == 0 && truth(or(args[1], false)) || i > 0 && (blank || line.s != "") {
			b.add(indention)
		}
		b.add(line)
	}
	out := b.text()
	out.safe = t.safe
	return out
}

func (s *state) replaceFilter(v value, a *arguments) value {
	args := a.bind(s, "replace", 2, "old", "new", "count")
	limit := -1
	if n := or(args[2], nil); n != nil {
		limit = s.clampedInt(n, "count")
	}
	t := s.str(v)
	t.safe = false
	return s.replace(t, s.str(args[0]), s.str(args[1]), limit)
}

func (s *state) round(v value, a *arguments) value {
	args := a.bind(s, "round", 0, "precision", "method")
	precision := s.clampedInt(or(args[0], int64(0)), "a precision")
	how := s.needText(or(args[1], plain("common"))).s
	s.needDefined(v)
	if !isNumber(v) {
		s.fail("type %s doesn't define __round__ method", typeName(v))
	}
	scale := math.Pow(10, float64(precision))
	switch how {
	case "common":
		if i, ok := toInt(v); ok && precision >= 0 {
			return integer(i)
		}
		if precision < 0 {
			return math.RoundToEven(toFloat(v)*scale) / scale
		}
		f, _ := strconv.ParseFloat(strconv.FormatFloat(toFloat(v), 'f', min(precision, 400), 64), 64)
		return f
	case "ceil":
		return (math.Ceil(toFloat(v)*scale) + 0) / scale // -0 becomes 0, as an integer of Python's
	case "floor":
		return (math.Floor(toFloat(v)*scale) + 0) / scale
	}
	s.fail("method must be common, ceil or floor")
	return nil
}

func (s *state) trim(v value, a *arguments) value {
	chars := or(a.bind(s, "trim", 0, "chars")[0], nil)
	return s.strip(s.str(v), chars, true, true)
}

func (s *state) truncate(v value, a *arguments) value {
	args := a.bind(s, "truncate", 0, "length", "killwords", "end", "leeway")
	if _, missing := v.(*undefined); missing {
		return v
	}
	t, end := s.needText(v), s.needText(or(args[2], plain("...")))
	length, leeway := s.clampedInt(or(args[0], int64(255)), "a length"), 5
	if l := or(args[3], nil); l != nil {
		leeway = s.clampedInt(l, "a leeway")
	}
	if length < end.length() {
		s.fail("expected length >= %d, got %d", end.length(), length)
	}
	if t.length() <= length+leeway {
		return t
	}
	cut := t.slice(0, t.offset(length-end.length()))
	if !truth(or(args[1], false)) {
		cut = cut.rsplit(" ", 1)[0]
	}
	return concat(cut, end)
}

func (s *state) urlEncode(v value, _ *arguments) value {
	quote := func(v value, query bool) string {
		q := strings.ReplaceAll(url.QueryEscape(s.str(v).s), "+", "%20")
		if query {
			return strings.ReplaceAll(q, "%20", "+")
		}
		return strings.ReplaceAll(q, "%2F", "/")
	}
	m, ok := v.(*mapping)
	if !ok {
		return s.str(v).within(quote(v, false))
	}
	var pairs []string
	for _, k := range m.keys {
		item, _ := m.get(k)
		pairs = append(pairs, quote(k, true)+"="+quote(item, true))
	}
	return plain(strings.Join(pairs, "&"))
}

func (s *state) wordCount(v value, _ *arguments) value {
	isWord := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }
	return int64(len(strings.FieldsFunc(s.str(v).s, func(r rune) bool { return !isWord(r) })))
}

var tagPattern = regexp.MustCompile(`(?s)<!--.*?-->|<.*?>`)

func (s *state) stripTags(v value, _ *arguments) value {
	t := s.str(v)
	stripped := tagPattern.ReplaceAllString(t.s, "")
	return t.within(strings.Join(strings.FieldsFunc(stripped, isSpace), " "))
}

func (s *state) xmlAttributes(v value, a *arguments) value {
	args := a.bind(s, "xmlattr", 0, "autospace")
	m, ok := v.(*mapping)
	if !ok {
		s.needDefined(v)
		s.fail("'%s' object has no attribute 'items'", typeName(v))
	}
	var b textBuilder
	for _, k := range m.keys {
		item, _ := m.get(k)
		if _, missing := item.(*undefined); missing || item == nil {
			continue
		}
		if strings.ContainsAny(s.needText(k).s, " \t\n\r\f\v/>=") {
			s.fail("invalid character in attribute name: %s", repr(k).s)
		}
		if len(b.b) > 0 || truth(or(args[0], true)) {
			b.addString(" ")
		}
		b.add(concat(escapeHTML(s.str(k)), plain(`="`), escapeHTML(s.str(item)), plain(`"`)))
	}
	return b.text()
}

func (s *state) fileSize(v value, a *arguments) value {
	binary := truth(or(a.bind(s, "filesizeformat", 0, "binary")[0], false))
	bytes, ok := parseFloat(v)
	if !ok {
		s.fail("could not convert %s to float", repr(v).s)
	}
	base, suffix := 1000.0, "B"
	prefixes := "kMGTPEZY"
	if binary {
		base, suffix, prefixes = 1024, "iB", "KMGTPEZY"
	}
	switch {
	case bytes == 1:
		return plain("1 Byte")
	case bytes < base:
		return plain(fmt.Sprintf("%d Bytes", int64(bytes)))
	}
	unit := base
	for i := range prefixes {
		unit *= base
		if bytes < unit || i == len(prefixes)-1 {
			return plain(fmt.Sprintf("%.1f %c%s", base*bytes/unit, prefixes[i], suffix))
		}
	}
	return nil
}
