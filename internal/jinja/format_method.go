package jinja

import (
	"regexp"
	"strconv"
	"strings"
)

// formatMethod is str.format.
func (s *state) formatMethod(t Text, a *arguments) Value {
	var b textBuilder
	auto := 0
	for at := 0; at < len(t.s); {
		i := strings.IndexAny(t.s[at:], "{}")
		if i < 0 {
			b.add(t.Slice(at, len(t.s)))
			break
		}
		b.add(t.Slice(at, at+i))
		at += i
		if strings.HasPrefix(t.s[at:], "{{") || strings.HasPrefix(t.s[at:], "}}") {
			b.add(t.Slice(at, at+1))
			at += 2
			continue
		}
		end := strings.IndexByte(t.s[at:], '}')
		if t.s[at] == '}' || end < 0 {
			s.fail("single %q encountered in format string", t.s[at])
		}
		field := t.s[at+1 : at+end]
		if strings.Contains(field, "{") {
			s.fail("nested fields of format are not supported")
		}
		b.add(s.formatField(field, a, &auto))
		s.chargeText(len(b.b))
		at += end + 1
	}
	return b.text()
}

var fieldPattern = regexp.MustCompile(`^([^.\[!:]*)((?:\.[^.\[!:]+|\[[^\]]+\])*)(?:!([rsa]))?(?::(?s:(.*)))?$`)

var accessPattern = regexp.MustCompile(`\.[^.\[]+|\[[^\]]+\]`)

func (s *state) formatField(field string, a *arguments, auto *int) Text {
	p := fieldPattern.FindStringSubmatch(field)
	if p == nil {
		s.fail("format: cannot read the field {%s}", field)
	}
	v := s.formatArgument(p[1], a, auto)
	for _, access := range accessPattern.FindAllString(p[2], -1) {
		if access[0] == '.' {
			v = s.attribute(v, access[1:])
			continue
		}
		key := access[1 : len(access)-1]
		if i, err := strconv.ParseInt(key, 10, 64); err == nil {
			v = s.item(v, i)
			continue
		}
		v = s.item(v, NewText(key))
	}
	switch p[3] {
	case "s":
		v = s.str(v)
	case "r", "a":
		v = repr(v)
	}
	return s.formatValue(v, p[4])
}

func (s *state) formatArgument(name string, a *arguments, auto *int) Value {
	if name == "" {
		name = strconv.Itoa(*auto)
		*auto++
	}
	if i, err := strconv.Atoi(name); err == nil {
		if i >= len(a.positional) || i < 0 {
			s.fail("replacement index %d out of range for positional args tuple", i)
		}
		return a.positional[i]
	}
	v, ok := a.keywords.Get(name)
	if !ok {
		s.fail("format: there is no argument '%s'", name)
	}
	return v
}

var specPattern = regexp.MustCompile(`^(?s:(.)?([<>=^]))?([-+ ])?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([a-zA-Z%])?$`)

// formatValue is format(v, spec).
func (s *state) formatValue(v Value, format string) Text {
	if format == "" {
		return s.str(v)
	}
	p := specPattern.FindStringSubmatch(format)
	if p == nil {
		s.fail("invalid format specifier '%s'", format)
	}
	f := formatSpec{fill: " ", alternate: p[4] != "", zero: p[5] != "" && p[2] == "", comma: p[7], precision: -1}
	if p[1] != "" {
		f.fill = p[1]
	}
	if p[2] != "" {
		f.align = p[2][0]
	}
	if p[3] != "" {
		f.sign = p[3][0]
	}
	if p[6] != "" {
		f.width, _ = strconv.Atoi(p[6])
		f.width = min(f.width, 1<<40)
	}
	if p[8] != "" {
		f.precision, _ = strconv.Atoi(p[8])
		f.precision = min(f.precision, 1<<40)
	}
	if p[9] != "" {
		f.kind = p[9][0]
	}
	if isNumber(v) { // a bool counts as 0 or 1 here
		if f.align == 0 {
			f.align = '>'
		}
		if f.kind == 'F' {
			f.kind = 'f'
		}
		return s.formatNumber(f, v)
	}
	t, ok := v.(Text)
	if !ok {
		s.fail("unsupported format string passed to %s.__format__", TypeName(v))
	}
	if f.kind != 0 && f.kind != 's' || f.sign != 0 {
		s.fail("invalid format specifier '%s' for a string", format)
	}
	if f.align == 0 {
		f.align = '<'
	}
	return s.fit(f, cut(t, f.precision))
}
