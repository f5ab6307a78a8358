package jinja

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatSpec is a format specification of % or str.format.
type formatSpec struct {
	fill        string
	align, sign byte // 0 if absent
	alternate   bool
	zero        bool
	width       int
	comma       string
	precision   int // -1 if absent
	kind        byte
}

// cut returns the first n code points of t, or all if n < 0.
func cut(t Text, n int) Text {
	if n < 0 {
		return t
	}
	return t.Slice(0, t.offset(n))
}

// fit pads t to the width.
func (s *state) fit(f formatSpec, t Text) Text {
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
	return Concat(NewText(strings.Repeat(f.fill, left)), t, NewText(strings.Repeat(f.fill, n-left)))
}

// formatNumber formats a number; padding zeros go between its sign and its digits.
func (s *state) formatNumber(f formatSpec, v Value) Text {
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
		return NewText(sign + strings.Repeat(fill, n) + digits)
	}
	return s.fit(f, NewText(sign+digits))
}

func (s *state) digits(f formatSpec, v Value) string {
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

// general is C's format g: an exponent only if that is shorter, and no trailing zeros.
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

// group separates the integer part's digits into groups of three.
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
