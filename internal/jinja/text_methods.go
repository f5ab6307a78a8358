package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var stringMethods map[string]func(s *state, t Text, a *arguments) Value

func init() {
	stringMethods = map[string]func(s *state, t Text, a *arguments) Value{
		"capitalize": whole(capitalize), "casefold": whole(fold), "lower": whole(lowerCase), "upper": whole(upperCase),
		"title": whole(titleCase), "swapcase": whole(swapCase),
		"strip": stripMethod(true, true), "lstrip": stripMethod(true, false), "rstrip": stripMethod(false, true),
		"split":     splitMethod("split", Text.split, Text.splitSpace),
		"rsplit":    splitMethod("rsplit", Text.rsplit, Text.rsplitSpace),
		"partition": partitionMethod(false), "rpartition": partitionMethod(true),
		"splitlines": func(s *state, t Text, a *arguments) Value {
			return texts(t.splitLines(truth(or(a.bind(s, "splitlines", 0, "keepends")[0], false))))
		},
		"replace": (*state).replaceMethod,
		"join": func(s *state, t Text, a *arguments) Value {
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
		"isspace":   isMethod(IsSpace),
		"islower":   func(_ *state, t Text, _ *arguments) Value { return isCased(t, unicode.IsLower, unicode.IsUpper) },
		"isupper":   func(_ *state, t Text, _ *arguments) Value { return isCased(t, unicode.IsUpper, unicode.IsLower) },
		"istitle":   func(_ *state, t Text, _ *arguments) Value { return titleCase(t).s == t.s && isCasedAny(t.s) },
		"isdecimal": isMethod(func(r rune) bool { return unicode.Is(unicode.Nd, r) }), "isnumeric": isMethod(unicode.IsNumber),
		"isascii": func(_ *state, t Text, _ *arguments) Value {
			return strings.IndexFunc(t.s, func(r rune) bool { return r >= 0x80 }) < 0
		},
		"isprintable": func(_ *state, t Text, _ *arguments) Value {
			return strings.IndexFunc(t.s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
		},
		"isidentifier": func(_ *state, t Text, _ *arguments) Value { return isIdentifier(t.s) },
		"startswith":   affixMethod("startswith", strings.HasPrefix),
		"endswith":     affixMethod("endswith", strings.HasSuffix),
		"removeprefix": func(s *state, t Text, a *arguments) Value {
			p := s.needText(a.bind(s, "removeprefix", 1, "prefix")[0])
			return t.Slice(len(t.s)-len(strings.TrimPrefix(t.s, p.s)), len(t.s))
		},
		"removesuffix": func(s *state, t Text, a *arguments) Value {
			p := s.needText(a.bind(s, "removesuffix", 1, "suffix")[0])
			return t.Slice(0, len(strings.TrimSuffix(t.s, p.s)))
		},
		"center":     (*state).centerMethod,
		"expandtabs": (*state).expandTabs,
		"encode": func(s *state, _ Text, _ *arguments) Value {
			s.fail("str.encode is not supported: templates have no use for bytes")
			return nil
		},
	}
}

func whole(f func(Text) Text) func(*state, Text, *arguments) Value {
	return func(s *state, t Text, a *arguments) Value {
		a.bind(s, "the method", 0)
		out := f(t)
		out.safe = t.safe
		return out
	}
}

// strip removes chars, or white space if chars is None, from the chosen sides.
func (s *state) strip(t Text, chars Value, left, right bool) Text {
	if chars == nil {
		return t.trimFunc(IsSpace, left, right)
	}
	set := s.needText(chars).s
	return t.trimFunc(func(r rune) bool { return strings.ContainsRune(set, r) }, left, right)
}

func stripMethod(left, right bool) func(*state, Text, *arguments) Value {
	return func(s *state, t Text, a *arguments) Value {
		return s.strip(t, or(a.bind(s, "strip", 0, "chars")[0], nil), left, right)
	}
}

func splitMethod(name string, by func(Text, string, int) []Text, bySpace func(Text, int) []Text) func(*state, Text, *arguments) Value {
	return func(s *state, t Text, a *arguments) Value {
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

func partitionMethod(last bool) func(*state, Text, *arguments) Value {
	return func(s *state, t Text, a *arguments) Value {
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
			return tuple(t.Slice(0, i), t.Slice(i, i+len(sep)), t.Slice(i+len(sep), len(t.s)))
		case last:
			return tuple(Text{}, Text{}, t)
		}
		return tuple(t, Text{}, Text{})
	}
}

func (s *state) replaceMethod(t Text, a *arguments) Value {
	v := a.bind(s, "replace", 2, "old", "new", "count")
	return s.replace(t, s.needText(v[0]), s.needText(v[1]), s.clampedInt(or(v[2], int64(-1)), "count"))
}

func (s *state) replace(t, old, by Text, limit int) Text {
	n := strings.Count(t.s, old.s)
	s.chargeText(len(t.s) + n*len(by.s))
	s.charge(4 * n)
	out := t.replace(old, by, limit)
	out.safe = t.safe
	return out
}

// join concatenates the items of a value. Unless any is set, they must be strings.
func (s *state) join(sep Text, over Value, any bool) Text {
	var b textBuilder
	for i, item := range s.iterate(over) {
		var t Text
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

// section returns t[start:end] in code points, and its offset.
func (s *state) section(t Text, start, end Value) (Text, int) {
	optional := func(v Value) *int {
		if v = or(v, nil); v == nil {
			return nil
		}
		i := s.clampedInt(v, "indices")
		return &i
	}
	a, b := bounds(optional(start), optional(end), 1, t.length())
	from := t.offset(a)
	return t.Slice(from, max(from, t.offset(b))), a
}

func findMethod(name string, find func(string, string) int, must bool) func(*state, Text, *arguments) Value {
	return func(s *state, t Text, a *arguments) Value {
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

func (s *state) countMethod(t Text, a *arguments) Value {
	v := a.bind(s, "count", 1, "sub", "start", "end")
	part, _ := s.section(t, v[1], v[2])
	return int64(strings.Count(part.s, s.needText(v[0]).s))
}

func affixMethod(name string, has func(string, string) bool) func(*state, Text, *arguments) Value {
	return func(s *state, t Text, a *arguments) Value {
		v := a.bind(s, name, 1, "affix", "start", "end")
		part, _ := s.section(t, v[1], v[2])
		if q, ok := v[0].(*Sequence); ok && q.kind == tupleKind {
			return slices.ContainsFunc(q.Items, func(item Value) bool { return has(part.s, s.needText(item).s) })
		}
		return has(part.s, s.needText(v[0]).s)
	}
}

// pad pads t to a width; left(n) returns how many of n fill characters go before it.
func (s *state) pad(t Text, width int, fill Text, left func(n int) int) Text {
	if fill.length() != 1 {
		s.fail("the fill character must be exactly one character long")
	}
	n := width - t.length()
	if n <= 0 {
		return t
	}
	s.chargeText(min(n, maxText+1) * len(fill.s))
	before := left(n)
	return Concat(NewText(strings.Repeat(fill.s, before)), t, NewText(strings.Repeat(fill.s, n-before)))
}

func padMethod(name string, left func(int) int) func(*state, Text, *arguments) Value {
	return func(s *state, t Text, a *arguments) Value {
		v := a.bind(s, name, 1, "width", "fillchar")
		return s.pad(t, s.clampedInt(v[0], "a width"), s.needText(or(v[1], NewText(" "))), left)
	}
}

func (s *state) centerMethod(t Text, a *arguments) Value {
	v := a.bind(s, "center", 1, "width", "fillchar")
	width := s.clampedInt(v[0], "a width")
	odd := func(n int) int { return n/2 + (n & width & 1) }
	return s.pad(t, width, s.needText(or(v[1], NewText(" "))), odd)
}

func (s *state) zfillMethod(t Text, a *arguments) Value {
	width := s.clampedInt(a.bind(s, "zfill", 1, "width")[0], "a width")
	sign := 0
	if t.s != "" && (t.s[0] == '-' || t.s[0] == '+') {
		sign = 1
	}
	n := max(0, width-t.length())
	s.chargeText(min(n, maxText+1))
	return Concat(t.Slice(0, sign), NewText(strings.Repeat("0", n)), t.Slice(sign, len(t.s)))
}

func (s *state) expandTabs(t Text, a *arguments) Value {
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

func isMethod(is func(rune) bool) func(*state, Text, *arguments) Value {
	return func(_ *state, t Text, _ *arguments) Value {
		return t.s != "" && strings.IndexFunc(t.s, func(r rune) bool { return !is(r) }) < 0
	}
}
