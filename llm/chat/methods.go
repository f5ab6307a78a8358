package chat

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tryAttribute gives what getattr of Python's would: methods, and attributes of objects that templates know.
func (s *state) tryAttribute(of value, name string) (value, bool) {
	switch v := of.(type) {
	case text:
		if stringMethods[name] != nil {
			return &method{of, name}, true
		}
	case *mapping:
		if mappingMethods[name] != nil {
			return &method{of, name}, true
		}
		if slices.Contains([]string{"clear", "pop", "popitem", "setdefault", "update"}, name) {
			return &undefined{"access to attribute '" + name + "' of 'dict' object", true}, true
		}
	case *sequence:
		return v.attribute(name)
	case *namespace:
		return v.attributes.getString(name)
	case *loopState:
		return v.attribute(name)
	case *macro:
		return v.attribute(name)
	case float64:
		if name == "is_integer" {
			return &function{name, func(*state, *arguments) value { return v == math.Trunc(v) && !math.IsInf(v, 0) }}, true
		}
	}
	if strings.HasPrefix(name, "__") && slices.Contains([]string{"__class__", "__init__", "__dict__", "__doc__"}, name) {
		return &undefined{"access to attribute '" + name + "' of '" + typeName(of) + "' object", true}, true
	}
	return nil, false
}

func (q *sequence) attribute(name string) (value, bool) {
	switch {
	case q.kind <= rangeKind && (name == "index" || name == "count"), q.kind == listKind && name == "copy":
		return &method{q, name}, true
	case q.kind == listKind && slices.Contains([]string{"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}, name):
		return &undefined{"access to attribute '" + name + "' of 'list' object", true}, true
	}
	return nil, false
}

func (m *macro) attribute(name string) (value, bool) {
	switch name {
	case "name":
		return plain(m.name), true
	case "arguments":
		var names []value
		for _, p := range m.params {
			names = append(names, plain(p.name))
		}
		return tuple(names...), true
	case "caller":
		return m.used["caller"], true
	}
	return nil, false
}

func (s *state) callMethod(m *method, a *arguments) value {
	switch of := m.of.(type) {
	case text:
		s.charge(len(of.s) >> 6)
		out := stringMethods[m.name](s, of, a)
		if of.safe {
			return markSafe(out)
		}
		return out
	case *mapping:
		return mappingMethods[m.name](s, of, a)
	case *sequence:
		return s.callSequence(of, m.name, a)
	}
	s.fail("'%s' object has no method %q", typeName(m.of), m.name)
	return nil
}

// markSafe marks the strings that a method of a safe one returns.
func markSafe(v value) value {
	switch v := v.(type) {
	case text:
		v.safe = true
		return v
	case *sequence:
		items := make([]value, len(v.items))
		for i, item := range v.items {
			items[i] = markSafe(item)
		}
		return &sequence{v.kind, items}
	}
	return v
}

func (s *state) callSequence(q *sequence, name string, a *arguments) value {
	if name == "copy" {
		return list(slices.Clone(q.items))
	}
	item := a.bind(s, name, 1, "value")[0]
	n := int64(0)
	for i, v := range q.items {
		if !equal(v, item) {
			continue
		}
		if name == "index" {
			return int64(i)
		}
		n++
	}
	if name == "index" {
		s.fail("%s is not in list", repr(item).s)
	}
	return n
}

var mappingMethods map[string]func(s *state, m *mapping, a *arguments) value

var stringMethods map[string]func(s *state, t text, a *arguments) value

func init() {
	view := func(kind sequenceKind) func(s *state, m *mapping, a *arguments) value {
		return func(s *state, m *mapping, a *arguments) value {
			a.bind(s, sequenceNames[kind], 0)
			s.charge(len(m.keys))
			return m.view(kind)
		}
	}
	mappingMethods = map[string]func(s *state, m *mapping, a *arguments) value{
		"keys": view(keysKind), "values": view(valuesKind), "items": view(itemsKind),
		"copy": func(_ *state, m *mapping, _ *arguments) value { return m.clone() },
		"get": func(s *state, m *mapping, a *arguments) value {
			v := a.bind(s, "get", 1, "key", "default")
			if _, ok := hashKey(v[0]); !ok {
				s.fail("unhashable type: '%s'", typeName(v[0]))
			}
			if found, ok := m.get(v[0]); ok {
				return found
			}
			return or(v[1], nil)
		},
	}
	stringMethods = map[string]func(s *state, t text, a *arguments) value{
		"capitalize": whole(capitalize), "casefold": whole(fold), "lower": whole(lower), "upper": whole(upper),
		"title": whole(titleCase), "swapcase": whole(swapCase),
		"strip": stripMethod(true, true), "lstrip": stripMethod(true, false), "rstrip": stripMethod(false, true),
		"split":     splitMethod("split", text.split, text.splitSpace),
		"rsplit":    splitMethod("rsplit", text.rsplit, text.rsplitSpace),
		"partition": partitionMethod(false), "rpartition": partitionMethod(true),
		"splitlines": func(s *state, t text, a *arguments) value {
			return texts(t.splitLines(truth(or(a.bind(s, "splitlines", 0, "keepends")[0], false))))
		},
		"replace": (*state).replaceMethod,
		"join": func(s *state, t text, a *arguments) value {
			return s.join(t, a.bind(s, "join", 1, "iterable")[0], false)
		},
		"format":    (*state).formatMethod,
		"find":      findMethod("find", strings.Index, false),
		"rfind":     findMethod("rfind", strings.LastIndex, false),
		"index":     findMethod("index", strings.Index, true),
		"rindex":    findMethod("rindex", strings.LastIndex, true),
		"count":     (*state).countMethod,
		"ljust":     padMethod("ljust", func(n int) int { return 0 }),
		"rjust":     padMethod("rjust", func(n int) int { return n }),
		"zfill":     (*state).zfillMethod,
		"isalpha":   isMethod(unicode.IsLetter),
		"isalnum":   isMethod(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isdigit":   isMethod(isDigit),
		"isspace":   isMethod(isSpace),
		"islower":   func(_ *state, t text, _ *arguments) value { return isCased(t, unicode.IsLower, unicode.IsUpper) },
		"isupper":   func(_ *state, t text, _ *arguments) value { return isCased(t, unicode.IsUpper, unicode.IsLower) },
		"istitle":   func(_ *state, t text, _ *arguments) value { return titleCase(t).s == t.s && isCasedAny(t.s) },
		"isdecimal": isMethod(func(r rune) bool { return unicode.Is(unicode.Nd, r) }), "isnumeric": isMethod(unicode.IsNumber),
		"isascii": func(_ *state, t text, _ *arguments) value {
			return strings.IndexFunc(t.s, func(r rune) bool { return r >= 0x80 }) < 0
		},
		"isprintable": func(_ *state, t text, _ *arguments) value {
			return strings.IndexFunc(t.s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
		},
		"isidentifier": func(_ *state, t text, _ *arguments) value { return isIdentifier(t.s) },
		"startswith":   affixMethod("startswith", strings.HasPrefix),
		"endswith":     affixMethod("endswith", strings.HasSuffix),
		"removeprefix": func(s *state, t text, a *arguments) value {
			p := s.needText(a.bind(s, "removeprefix", 1, "prefix")[0])
			return t.slice(len(t.s)-len(strings.TrimPrefix(t.s, p.s)), len(t.s))
		},
		"removesuffix": func(s *state, t text, a *arguments) value {
			p := s.needText(a.bind(s, "removesuffix", 1, "suffix")[0])
			return t.slice(0, len(strings.TrimSuffix(t.s, p.s)))
		},
		"center": func(s *state, t text, a *arguments) value {
			v := a.bind(s, "center", 1, "width", "fillchar")
			width := s.clampedInt(v[0], "a width")
			odd := func(n int) int { return n/2 + (n & width & 1) }
			return s.pad(t, width, s.needText(or(v[1], plain(" "))), odd)
		},
		"expandtabs": (*state).expandTabs,
		"encode": func(s *state, _ text, _ *arguments) value {
			s.fail("str.encode is not supported: templates have no use for bytes")
			return nil
		},
	}
}

// needText is v, which has to be a string.
func (s *state) needText(v value) text {
	t, ok := v.(text)
	if !ok {
		s.needDefined(v)
		s.fail("a string expected, got '%s'", typeName(v))
	}
	return t
}

func whole(f func(text) text) func(*state, text, *arguments) value {
	return func(s *state, t text, a *arguments) value {
		a.bind(s, "the method", 0)
		out := f(t)
		out.safe = t.safe
		return out
	}
}

// strip removes the characters, or white space if chars is None, from the sides.
func (s *state) strip(t text, chars value, left, right bool) text {
	if chars == nil {
		return t.trimFunc(isSpace, left, right)
	}
	set := s.needText(chars).s
	return t.trimFunc(func(r rune) bool { return strings.ContainsRune(set, r) }, left, right)
}

func stripMethod(left, right bool) func(*state, text, *arguments) value {
	return func(s *state, t text, a *arguments) value {
		return s.strip(t, or(a.bind(s, "strip", 0, "chars")[0], nil), left, right)
	}
}

func splitMethod(name string, by func(text, string, int) []text, bySpace func(text, int) []text) func(*state, text, *arguments) value {
	return func(s *state, t text, a *arguments) value {
		v := a.bind(s, name, 0, "sep", "maxsplit")
		limit := s.clampedInt(or(v[1], int64(-1)), "maxsplit")
		sep := or(v[0], nil)
		if sep == nil {
			return texts(bySpace(t, limit))
		}
		separator := s.needText(sep).s
		if separator == "" {
			s.fail("empty separator")
		}
		s.charge(strings.Count(t.s, separator))
		return texts(by(t, separator, limit))
	}
}

func partitionMethod(last bool) func(*state, text, *arguments) value {
	return func(s *state, t text, a *arguments) value {
		sep := s.needText(a.bind(s, "partition", 1, "sep")[0]).s
		if sep == "" {
			s.fail("empty separator")
		}
		i := strings.Index(t.s, sep)
		if last {
			i = strings.LastIndex(t.s, sep)
		}
		switch {
		case i >= 0:
			return tuple(t.slice(0, i), t.slice(i, i+len(sep)), t.slice(i+len(sep), len(t.s)))
		case last:
			return tuple(text{}, text{}, t)
		}
		return tuple(t, text{}, text{})
	}
}

func (s *state) replaceMethod(t text, a *arguments) value {
	v := a.bind(s, "replace", 2, "old", "new", "count")
	return s.replace(t, s.needText(v[0]), s.needText(v[1]), s.clampedInt(or(v[2], int64(-1)), "count"))
}

func (s *state) replace(t, old, by text, limit int) text {
	n := strings.Count(t.s, old.s)
	s.chargeText(len(t.s) + n*len(by.s))
	s.charge(4 * n)
	out := t.replace(old, by, limit)
	out.safe = t.safe
	return out
}

// join joins the items of a value, which have to be strings unless any will do.
func (s *state) join(sep text, over value, any bool) text {
	var b textBuilder
	for i, item := range s.iterate(over) {
		var t text
		if any {
			t = s.str(item)
		} else {
			t = s.needText(item)
		}
		s.chargeText(len(t.s))
		if len(b.b) > maxText {
			s.chargeText(len(b.b))
		}
		if i > 0 {
			b.add(sep)
		}
		b.add(t)
	}
	return b.text()
}

// section is t[start:end] in code points, and where it begins.
func (s *state) section(t text, start, end value) (text, int) {
	optional := func(v value) *int {
		if v = or(v, nil); v == nil {
			return nil
		}
		i := s.clampedInt(v, "indices")
		return &i
	}
	a, b := bounds(optional(start), optional(end), 1, t.length())
	from := t.offset(a)
	return t.slice(from, max(from, t.offset(b))), a
}

func findMethod(name string, find func(string, string) int, must bool) func(*state, text, *arguments) value {
	return func(s *state, t text, a *arguments) value {
		v := a.bind(s, name, 1, "sub", "start", "end")
		part, at := s.section(t, v[1], v[2])
		i := find(part.s, s.needText(v[0]).s)
		if i >= 0 {
			return int64(at + utf8.RuneCountInString(part.s[:i]))
		}
		if must {
			s.fail("substring not found")
		}
		return int64(-1)
	}
}

func (s *state) countMethod(t text, a *arguments) value {
	v := a.bind(s, "count", 1, "sub", "start", "end")
	part, _ := s.section(t, v[1], v[2])
	return int64(strings.Count(part.s, s.needText(v[0]).s))
}

func affixMethod(name string, has func(string, string) bool) func(*state, text, *arguments) value {
	return func(s *state, t text, a *arguments) value {
		v := a.bind(s, name, 1, "affix", "start", "end")
		part, _ := s.section(t, v[1], v[2])
		if q, ok := v[0].(*sequence); ok && q.kind == tupleKind {
			return slices.ContainsFunc(q.items, func(item value) bool { return has(part.s, s.needText(item).s) })
		}
		return has(part.s, s.needText(v[0]).s)
	}
}

// pad fills t to a width; left says how many of n missing characters go before it.
func (s *state) pad(t text, width int, fill text, left func(n int) int) text {
	if fill.length() != 1 {
		s.fail("the fill character must be exactly one character long")
	}
	n := width - t.length()
	if n <= 0 {
		return t
	}
	s.chargeText(min(n, maxText+1) * len(fill.s))
	before := left(n)
	return concat(plain(strings.Repeat(fill.s, before)), t, plain(strings.Repeat(fill.s, n-before)))
}

func padMethod(name string, left func(int) int) func(*state, text, *arguments) value {
	return func(s *state, t text, a *arguments) value {
		v := a.bind(s, name, 1, "width", "fillchar")
		return s.pad(t, s.clampedInt(v[0], "a width"), s.needText(or(v[1], plain(" "))), left)
	}
}

func (s *state) zfillMethod(t text, a *arguments) value {
	width := s.clampedInt(a.bind(s, "zfill", 1, "width")[0], "a width")
	sign := 0
	if t.s != "" && (t.s[0] == '-' || t.s[0] == '+') {
		sign = 1
	}
	n := max(0, width-t.length())
	s.chargeText(min(n, maxText+1))
	return concat(t.slice(0, sign), plain(strings.Repeat("0", n)), t.slice(sign, len(t.s)))
}

func (s *state) expandTabs(t text, a *arguments) value {
	size := s.clampedInt(or(a.bind(s, "expandtabs", 0, "tabsize")[0], int64(8)), "tabsize")
	s.chargeText(len(t.s) + strings.Count(t.s, "\t")*max(0, min(size, maxText+1)))
	column := 0
	return t.mapRunes(func(_ int, r rune) string {
		switch {
		case r == '\t' && size > 0:
			n := size - column%size
			column += n
			return strings.Repeat(" ", n)
		case r == '\t':
			return ""
		case r == '\n' || r == '\r':
			column = 0
		default:
			column++
		}
		return string(r)
	})
}

func isMethod(is func(rune) bool) func(*state, text, *arguments) value {
	return func(_ *state, t text, _ *arguments) value {
		return t.s != "" && strings.IndexFunc(t.s, func(r rune) bool { return !is(r) }) < 0
	}
}

// isDigit is str.isdigit: decimal digits, and those that are raised or encircled.
func isDigit(r rune) bool {
	return unicode.Is(unicode.Nd, r) || r == 0xb2 || r == 0xb3 || r == 0xb9 || r == 0x2070 || r >= 0x2074 && r <= 0x2079 ||
		r >= 0x2080 && r <= 0x2089 || r >= 0x2460 && r <= 0x2468
}

func isIdentifier(s string) bool {
	for i, r := range s {
		if !isIdentifierStart(r) && (i == 0 || !unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc)) {
			return false
		}
	}
	return s != ""
}

// isCased reports whether all cased characters of t are of one case, and there are any.
func isCased(t text, is, isOther func(rune) bool) bool {
	return strings.IndexFunc(t.s, is) >= 0 && strings.IndexFunc(t.s, func(r rune) bool { return isOther(r) || unicode.IsTitle(r) }) < 0
}

func isCasedAny(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) }) >= 0
}
