package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// split splits at each sep, at most limit times unless limit < 0.
func (t Text) split(sep string, limit int) []Text {
	var out []Text
	from := 0
	for limit < 0 || len(out) < limit {
		i := strings.Index(t.s[from:], sep)
		if i < 0 {
			break
		}
		out = append(out, t.Slice(from, from+i))
		from += i + len(sep)
	}
	return append(out, t.Slice(from, len(t.s)))
}

// rsplit is split from the right.
func (t Text) rsplit(sep string, limit int) []Text {
	var out []Text
	to := len(t.s)
	for limit < 0 || len(out) < limit {
		i := strings.LastIndex(t.s[:to], sep)
		if i < 0 {
			break
		}
		out = append(out, t.Slice(i+len(sep), to))
		to = i
	}
	out = append(out, t.Slice(0, to))
	slices.Reverse(out)
	return out
}

// splitSpace splits at white space, as str.split() without separator.
func (t Text) splitSpace(limit int) []Text {
	var out []Text
	rest := t.trimFunc(IsSpace, true, false)
	for rest.s != "" {
		i := strings.IndexFunc(rest.s, IsSpace)
		if i < 0 {
			return append(out, rest)
		}
		if limit >= 0 && len(out) >= limit {
			return append(out, rest)
		}
		out = append(out, rest.Slice(0, i))
		rest = rest.Slice(i, len(rest.s)).trimFunc(IsSpace, true, false)
	}
	return out
}

// rsplitSpace is splitSpace from the right.
func (t Text) rsplitSpace(limit int) []Text {
	var out []Text
	rest := t.trimFunc(IsSpace, false, true)
	for rest.s != "" {
		i := strings.LastIndexFunc(rest.s, IsSpace)
		if i < 0 || limit >= 0 && len(out) >= limit {
			out = append(out, rest)
			break
		}
		_, size := utf8.DecodeRuneInString(rest.s[i:])
		out = append(out, rest.Slice(i+size, len(rest.s)))
		rest = rest.Slice(0, i).trimFunc(IsSpace, false, true)
	}
	slices.Reverse(out)
	return out
}

// splitLines is str.splitlines.
func (t Text) splitLines(keep bool) []Text {
	var out []Text
	from := 0
	for i := 0; i < len(t.s); {
		r, size := utf8.DecodeRuneInString(t.s[i:])
		if !isLineBreak(r) {
			i += size
			continue
		}
		end := i
		i += size
		if r == '\r' && strings.HasPrefix(t.s[i:], "\n") {
			i++
		}
		if keep {
			end = i
		}
		out = append(out, t.Slice(from, end))
		from = i
	}
	if from < len(t.s) {
		out = append(out, t.Slice(from, len(t.s)))
	}
	return out
}

// replace replaces old by by, at most limit times unless limit < 0.
func (t Text) replace(old, by Text, limit int) Text {
	var b textBuilder
	if old.s == "" {
		return t.interleave(by, limit)
	}
	for i, chunk := range t.split(old.s, limit) {
		if i > 0 {
			b.add(by)
		}
		b.add(chunk)
	}
	return b.text()
}

// interleave inserts by before each code point and at the end, as replacing the empty string does.
func (t Text) interleave(by Text, limit int) Text {
	var b textBuilder
	n := 0
	for i, r := range t.s {
		if limit < 0 || n < limit {
			b.add(by)
			n++
		}
		b.add(t.Slice(i, i+utf8.RuneLen(r)))
	}
	if limit < 0 || n < limit {
		b.add(by)
	}
	return b.text()
}
