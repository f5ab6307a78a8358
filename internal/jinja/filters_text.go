package jinja

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

func textFilter(f func(Text) Text) filterFunc {
	return func(s *state, v Value, a *arguments) Value {
		a.bind(s, "the filter", 0)
		t := s.str(v)
		out := f(t)
		out.safe = t.safe
		return out
	}
}

func (s *state) center(v Value, a *arguments) Value {
	width := or(a.bind(s, "center", 0, "width")[0], int64(80))
	return s.callMethod(&method{s.str(v), "center"}, &arguments{[]Value{width}, NewDict()})
}

// escapeHTML is markupsafe.escape.
func escapeHTML(t Text) Text {
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

func (s *state) escape(v Value, _ *arguments) Value { return escapeHTML(s.str(v)) }

func (s *state) forceEscape(v Value, _ *arguments) Value {
	t := s.str(v)
	t.safe = false
	return escapeHTML(t)
}

func (s *state) formatFilter(v Value, a *arguments) Value {
	t := s.str(v)
	if len(a.keywords.keys) == 0 {
		return s.percent(t, tuple(a.positional...))
	}
	if len(a.positional) > 0 {
		s.fail("format takes positional or keyword arguments, not both")
	}
	return s.percent(t, a.keywords)
}

func (s *state) indent(v Value, a *arguments) Value {
	args := a.bind(s, "indent", 0, "width", "first", "blank")
	t := s.needText(v)
	indention, isText := or(args[0], int64(4)).(Text)
	if !isText {
		n := s.clampedInt(or(args[0], int64(4)), "a width")
		s.chargeText(max(0, min(n, maxText+1)))
		indention = NewText(strings.Repeat(" ", max(0, n)))
	}
	lines := Concat(t, NewText("\n")).splitLines(false)
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

func (s *state) replaceFilter(v Value, a *arguments) Value {
	args := a.bind(s, "replace", 2, "old", "new", "count")
	limit := -1
	if n := or(args[2], nil); n != nil {
		limit = s.clampedInt(n, "count")
	}
	t := s.str(v)
	t.safe = false
	return s.replace(t, s.str(args[0]), s.str(args[1]), limit)
}

func (s *state) trim(v Value, a *arguments) Value {
	chars := or(a.bind(s, "trim", 0, "chars")[0], nil)
	return s.strip(s.str(v), chars, true, true)
}

func (s *state) truncate(v Value, a *arguments) Value {
	args := a.bind(s, "truncate", 0, "length", "killwords", "end", "leeway")
	if _, missing := v.(*undefined); missing {
		return v
	}
	t, end := s.needText(v), s.needText(or(args[2], NewText("...")))
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
	cut := t.Slice(0, t.offset(length-end.length()))
	if !truth(or(args[1], false)) {
		cut = cut.rsplit(" ", 1)[0]
	}
	return Concat(cut, end)
}

func (s *state) urlEncode(v Value, _ *arguments) Value {
	quote := func(v Value, query bool) string {
		q := strings.ReplaceAll(url.QueryEscape(s.str(v).s), "+", "%20")
		if query {
			return strings.ReplaceAll(q, "%20", "+")
		}
		return strings.ReplaceAll(q, "%2F", "/")
	}
	m, ok := v.(*Dict)
	if !ok {
		return s.str(v).within(quote(v, false))
	}
	var pairs []string
	for k, item := range m.all() {
		pairs = append(pairs, quote(k, true)+"="+quote(item, true))
	}
	return NewText(strings.Join(pairs, "&"))
}

func (s *state) wordCount(v Value, _ *arguments) Value {
	isWord := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }
	return int64(len(strings.FieldsFunc(s.str(v).s, func(r rune) bool { return !isWord(r) })))
}

var tagPattern = regexp.MustCompile(`(?s)<!--.*?-->|<.*?>`)

func (s *state) stripTags(v Value, _ *arguments) Value {
	t := s.str(v)
	stripped := tagPattern.ReplaceAllString(t.s, "")
	return t.within(strings.Join(strings.FieldsFunc(stripped, IsSpace), " "))
}

func (s *state) xmlAttributes(v Value, a *arguments) Value {
	args := a.bind(s, "xmlattr", 0, "autospace")
	var b textBuilder
	for k, item := range s.needDict(v).all() {
		if _, missing := item.(*undefined); missing || item == nil {
			continue
		}
		if strings.ContainsAny(s.needText(k).s, " \t\n\r\f\v/>=") {
			s.fail("invalid character in attribute name: %s", repr(k).s)
		}
		if len(b.b) > 0 || truth(or(args[0], true)) {
			b.addString(" ")
		}
		b.add(Concat(escapeHTML(s.str(k)), NewText(`="`), escapeHTML(s.str(item)), NewText(`"`)))
	}
	return b.text()
}
