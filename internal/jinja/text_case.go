package jinja

import (
	"strings"
	"unicode"
)

// Letters whose upper case has several letters, from Unicode's SpecialCasing.
var upperSpecial = map[rune]string{
	'ß': "SS", 'ŉ': "ʼN", 'ǰ': "J̌", 'ΐ': "Ϊ́", 'ΰ': "Ϋ́", 'և': "ԵՒ", 'ẖ': "H̱", 'ẗ': "T̈", 'ẘ': "W̊", 'ẙ': "Y̊", 'ẚ': "Aʾ",
	'ﬀ': "FF", 'ﬁ': "FI", 'ﬂ': "FL", 'ﬃ': "FFI", 'ﬄ': "FFL", 'ﬅ': "ST", 'ﬆ': "ST",
}

// Letters whose title case has several letters.
var titleSpecial = map[rune]string{
	'ß': "Ss", 'ﬀ': "Ff", 'ﬁ': "Fi", 'ﬂ': "Fl", 'ﬃ': "Ffi", 'ﬄ': "Ffl", 'ﬅ': "St", 'ﬆ': "St", 'և': "Եւ",
}

func upperRune(r rune) string {
	if u, ok := upperSpecial[r]; ok {
		return u
	}
	return string(unicode.ToUpper(r))
}

func titleRune(r rune) string {
	if u, ok := titleSpecial[r]; ok {
		return u
	}
	if u, ok := upperSpecial[r]; ok {
		return u
	}
	return string(unicode.ToTitle(r))
}

// lowerRune returns the lower case of the letter at s[i].
func lowerRune(s string, i int, r rune) string {
	switch r {
	case 'İ':
		return "i̇"
	case 'Σ':
		if isFinal(s, i) {
			return "ς"
		}
	}
	return string(unicode.ToLower(r))
}

// isFinal reports whether a sigma at s[i] ends a word.
func isFinal(s string, i int) bool {
	skip := func(r rune) bool {
		return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm) || strings.ContainsRune("'.:·’", r)
	}
	cased := func(r rune) bool { return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) }
	before := []rune(strings.TrimRightFunc(s[:i], skip))
	after := []rune(strings.TrimLeftFunc(s[i+len("Σ"):], skip))
	return len(before) > 0 && cased(before[len(before)-1]) && !(len(after) > 0 && cased(after[0]))
}

func upperCase(t Text) Text { return t.mapRunes(func(_ int, r rune) string { return upperRune(r) }) }

func lowerCase(t Text) Text {
	return t.mapRunes(func(i int, r rune) string { return lowerRune(t.s, i, r) })
}

// fold is str.casefold.
func fold(t Text) Text {
	return t.mapRunes(func(_ int, r rune) string {
		if u, ok := upperSpecial[r]; ok {
			return strings.ToLower(u)
		}
		if r == 'ς' {
			return "σ"
		}
		return lowerRune(string(r), 0, r)
	})
}

func capitalize(t Text) Text {
	return t.mapRunes(func(i int, r rune) string {
		if i == 0 {
			return titleRune(r)
		}
		return lowerRune(t.s, i, r)
	})
}

// titleCase is str.title: the first letter of each run of letters becomes title case, the others lower case.
func titleCase(t Text) Text {
	inWord := false
	return t.mapRunes(func(i int, r rune) string {
		was := inWord
		inWord = unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
		if was {
			return lowerRune(t.s, i, r)
		}
		return titleRune(r)
	})
}

func swapCase(t Text) Text {
	return t.mapRunes(func(i int, r rune) string {
		switch {
		case unicode.IsUpper(r):
			return lowerRune(t.s, i, r)
		case unicode.IsLower(r):
			return upperRune(r)
		}
		return string(r)
	})
}

// titleWords is the filter title: letters after white space or an opening bracket become title case.
func titleWords(t Text) Text {
	first, rest := true, 0 // the rest of each word is lowered as a string of its own
	return t.mapRunes(func(i int, r rune) string {
		if IsSpace(r) || strings.ContainsRune("-({[<", r) {
			first = true
			return string(r)
		}
		if first {
			first, rest = false, i+len(string(r))
			return upperRune(r)
		}
		return lowerRune(t.s[rest:], i-rest, r)
	})
}
