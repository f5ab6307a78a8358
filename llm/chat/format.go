package chat

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is how a value is formatted, by % or by str.format.
type spec struct {
	fill        string
	align, sign byte // 0 if not given
	alternate   bool
	zero        bool
	width       int
	comma       string
	precision   int // -1 if not given
	kind        byte
}

var percentPattern = regexp.MustCompile(`^%(?:\(([^)]*)\))?([-#0 +]*)(\*|\d+)?(?:\.(\*|\d+)?)?([hlL]?)([a-zA-Z%])`)

// percent is t % args.
func (s *state) percent(t text, args value) value {
	items := []value{args}
	if q, ok := args.(*sequence); ok && q.kind == tupleKind {
		items = q.items
	}
	m, isMapping := args.(*mapping)
	used := 0
	next := func() value {
		if used >= len(items) {
			s.fail("not enough arguments for format string")
		}
		used++
		return items[used-1]
	}
	var b textBuilder
	for at := 0; at < len(t.s); {
		i := strings.IndexByte(t.s[at:], '%')
		if i < 0 {
			b.add(t.slice(at, len(t.s)))
			break
		}
		b.add(t.slice(at, at+i))
		at += i
		p := percentPattern.FindStringSubmatch(t.s[at:])
		if p == nil {
			s.fail("incomplete or unsupported format")
		}
		at += len(p[0])
		if p[6] == "%" {
			b.addString("%")
			continue
		}
		f := s.percentSpec(p, next)
		var v value
		if strings.HasPrefix(p[0], "%(") {
			if !isMapping {
				s.fail("format requires a mapping")
			}
			found, ok := m.getString(p[1])
			if !ok {
				s.fail("format: there is no key '%s'", p[1])
			}
			v, used = found, len(items)
		} else {
			v = next()
		}
		b.add(s.percentField(f, v))
		s.chargeText(len(b.b))
	}
	if used < len(items) && !isMapping {
		s.fail("not all arguments converted during string formatting")
	}
	return b.text()
}

func (s *state) percentSpec(p []string, next func() value) spec {
	f := spec{fill: " ", align: '>', precision: -1, kind: p[6][0]}
	for _, flag := range p[2] {
		switch flag {
		case '-':
			f.align = '<'
		case '#':
			f.alternate = true
		case '0':
			f.zero = true
		default:
			if f.sign != '+' {
				f.sign = byte(flag)
			}
		}
	}
	number := func(digits string) int {
		if digits == "*" {
			return s.clampedInt(next(), "a width")
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return 0
		}
		return min(n, 1<<40)
	}
	if f.width = number(p[3]); f.width < 0 {
		f.align, f.width = '<', -f.width
	}
	if strings.Contains(p[0], ".") {
		f.precision = number(p[4])
	}
	return f
}

func (s *state) percentField(f spec, v value) text {
	switch f.kind {
	case 's', 'r', 'a':
		t := s.str(v)
		if f.kind != 's' {
			t = repr(v)
		}
		f.zero = false
		return s.fit(f, cut(t, f.precision))
	case 'c':
		if n, ok := toInt(v); ok {
			return s.fit(f, plain(string(rune(n.Int64()))))
		}
		return s.fit(f, s.needText(v))
	case 'd', 'i', 'u':
		s.needDefined(v)
		if x, ok := v.(float64); ok {
			i, _ := big.NewFloat(x).Int(nil)
			v = integer(i)
		}
		f.kind = 'd'
	case 'F':
		f.kind = 'f'
	}
	if !isNumber(v) {
		s.needDefined(v)
		s.fail("%%%c format: a number is required, not %s", f.kind, typeName(v))
	}
	return s.formatNumber(f, v)
}

// cut is the first n code points of t; all if n is negative.
func cut(t text, n int) text {
	if n < 0 {
		return t
	}
	return t.slice(0, t.offset(n))
}

// fit fills t to the width.
func (s *state) fit(f spec, t text) text {
	n := f.width - t.length()
	if n <= 0 {
		return t
	}
	s.chargeText(min(n, maxText+1) * max(1, len(f.fill)))
	left := 0
	switch f.align {
	case '>':
		left = n
	case '^':
		left = n / 2
	}
	return concat(plain(strings.Repeat(f.fill, left)), t, plain(strings.Repeat(f.fill, n-left)))
}

// formatNumber formats a number; zeros for the width go between its sign and its digits.
func (s *state) formatNumber(f spec, v value) text {
	digits := s.digits(f, v)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	} else if f.sign == '+' || f.sign == ' ' {
		sign = string(f.sign)
	}
	if f.alternate {
		sign += map[byte]string{'x': "0x", 'X': "0X", 'o': "0o", 'b': "0b"}[f.kind]
	}
	if f.comma != "" {
		digits = group(digits, f.comma)
	}
	if f.zero && f.align != '<' || f.align == '=' {
		fill := "0"
		if !f.zero {
			fill = f.fill
		}
		n := max(0, f.width-len(sign)-utf8.RuneCountInString(digits))
		s.chargeText(min(n, maxText+1))
		return plain(sign + strings.Repeat(fill, n) + digits)
	}
	return s.fit(f, plain(sign+digits))
}

func (s *state) digits(f spec, v value) string {
	i, isInt := toInt(v)
	base := map[byte]int{'d': 10, 'n': 10, 'x': 16, 'X': 16, 'o': 8, 'b': 2}[f.kind]
	switch {
	case f.kind == 0 && isInt:
		return i.String()
	case f.kind == 0 && f.precision < 0:
		return formatFloat(toFloat(v))
	case base != 0:
		if !isInt {
			s.fail("format code '%c' needs an integer", f.kind)
		}
		d := i.Text(base)
		if f.kind == 'X' {
			d = strings.ToUpper(d)
		}
		if n := min(f.precision, maxText+1) - len(strings.TrimPrefix(d, "-")); n > 0 {
			s.chargeText(n)
			d = strings.Replace(d, strings.TrimPrefix(d, "-"), strings.Repeat("0", n)+strings.TrimPrefix(d, "-"), 1)
		}
		return d
	}
	precision := f.precision
	if precision < 0 {
		precision = 6
	}
	if precision > 1000 {
		s.fail("a precision of more than 1000 digits")
	}
	x := toFloat(v)
	switch f.kind {
	case 'f', 'F', 'e', 'E':
		return strconv.FormatFloat(x, f.kind|0x20, precision, 64)
	case '%':
		return strconv.FormatFloat(x*100, 'f', precision, 64) + "%"
	case 'g', 'G', 0:
		return general(x, max(1, precision), f.kind == 0)
	}
	s.fail("unknown format code '%c'", f.kind)
	return ""
}

// general is the format g of C: an exponent only where it is shorter, and no zeros at the end.
func general(x float64, precision int, isFloat bool) string {
	e := strconv.FormatFloat(x, 'e', precision-1, 64)
	exponent, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	if exponent >= -4 && exponent < precision {
		d := strconv.FormatFloat(x, 'f', precision-1-exponent, 64)
		if strings.Contains(d, ".") {
			d = strings.TrimRight(strings.TrimRight(d, "0"), ".")
		}
		if isFloat && !strings.Contains(d, ".") {
			d += ".0"
		}
		return d
	}
	mantissa, power, _ := strings.Cut(e, "e")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	return mantissa + "e" + power
}

// group puts a separator before each three digits of the whole part.
func group(digits, sep string) string {
	whole, fraction := digits, ""
	if i := strings.IndexAny(digits, ".e%"); i >= 0 {
		whole, fraction = digits[:i], digits[i:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + sep + whole[i:]
	}
	return whole + fraction
}

var specPattern = regexp.MustCompile(`^(?s:(.)?([<>=^]))?([-+ ])?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([a-zA-Z%])?$`)

// formatMethod is str.format.
func (s *state) formatMethod(t text, a *arguments) value {
	var b textBuilder
	auto := 0
	for at := 0; at < len(t.s); {
		i := strings.IndexAny(t.s[at:], "{}")
		if i < 0 {
			b.add(t.slice(at, len(t.s)))
			break
		}
		b.add(t.slice(at, at+i))
		at += i
		if strings.HasPrefix(t.s[at:], "{{") || strings.HasPrefix(t.s[at:], "}}") {
			b.add(t.slice(at, at+1))
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

func (s *state) formatField(field string, a *arguments, auto *int) text {
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
		v = s.item(v, plain(key))
	}
	switch p[3] {
	case "s":
		v = s.str(v)
	case "r", "a":
		v = repr(v)
	}
	return s.formatValue(v, p[4])
}

func (s *state) formatArgument(name string, a *arguments, auto *int) value {
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
	v, ok := a.keywords.getString(name)
	if !ok {
		s.fail("format: there is no argument '%s'", name)
	}
	return v
}

// formatValue is format(v, spec).
func (s *state) formatValue(v value, format string) text {
	if format == "" {
		return s.str(v)
	}
	p := specPattern.FindStringSubmatch(format)
	if p == nil {
		s.fail("invalid format specifier '%s'", format)
	}
	f := spec{fill: " ", alternate: p[4] != "", zero: p[5] != "" && p[2] == "", comma: p[7], precision: -1}
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
	if isNumber(v) { // a bool is 0 or 1 here
		if f.align == 0 {
			f.align = '>'
		}
		if f.kind == 'F' {
			f.kind = 'f'
		}
		return s.formatNumber(f, v)
	}
	t, ok := v.(text)
	if !ok {
		s.fail("unsupported format string passed to %s.__format__", typeName(v))
	}
	if f.kind != 0 && f.kind != 's' || f.sign != 0 {
		s.fail("invalid format specifier '%s' for a string", format)
	}
	if f.align == 0 {
		f.align = '<'
	}
	return s.fit(f, cut(t, f.precision))
}
