package jinja

import (
	"strings"
	"unicode"
)

// IsSpace is str.isspace for one code point.
func IsSpace(r rune) bool {
	switch {
	case r >= '\t' && r <= '\r', r >= 0x1c && r <= ' ', r == 0x85, r == 0xa0, r == 0x1680,
		r >= 0x2000 && r <= 0x200a, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

// isLineBreak reports whether str.splitlines splits at r.
func isLineBreak(r rune) bool {
	switch r {
	case '\n', '\v', '\f', '\r', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

// isDigit is str.isdigit: decimal digits, superscripts and circled digits.
func isDigit(r rune) bool {
	return unicode.Is(unicode.Nd, r) || r == 0xb2 || r == 0xb3 || r == 0xb9 || r == 0x2070 || r >= 0x2074 && r <= 0x2079 ||
		r >= 0x2080 && r <= 0x2089 || r >= 0x2460 && r <= 0x2468
}

func isIdentifierStart(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
}

func isIdentifier(s string) bool {
	for i, r := range s {
		if !isIdentifierStart(r) && (i == 0 || !unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc)) {
			return false
		}
	}
	return s != ""
}

// isCased reports whether t has cased characters and all of them have one case.
func isCased(t Text, is, isOther func(rune) bool) bool {
	return strings.IndexFunc(t.s, is) >= 0 && strings.IndexFunc(t.s, func(r rune) bool { return isOther(r) || unicode.IsTitle(r) }) < 0
}

func isCasedAny(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) }) >= 0
}
