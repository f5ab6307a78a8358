package tokenizer

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A class is the Unicode class of a code point, as far as split patterns distinguish them.
type class uint8

const (
	classOther  class = iota // control characters, unassigned, …
	classJoiner              // zero-width joiner and non-joiner
	classSpace               // \s, the White_Space property
	classUpper               // A to Z
	classLower               // a to z
	classHan                 // \p{Han} of \p{L}
	classLetter              // the rest of \p{L}
	classNumber              // \p{N}
	classMark                // \p{M}
	classPunct               // \p{P}
	classSymbol              // \p{S}
	classEnd                 // past the end of the text
)

// A classSet is a set of classes without classEnd.
type classSet uint16

func setOf(classes ...class) (s classSet) {
	for _, c := range classes {
		s |= 1 << c
	}
	return s
}

func (s classSet) has(c class) bool { return s>>c&1 != 0 }

var (
	anyClass  = setOf(classEnd) - 1
	spaceSet  = setOf(classSpace)
	asciiSet  = setOf(classUpper, classLower) // [A-Za-z]
	nonHanSet = asciiSet | setOf(classLetter)
	letterSet = nonHanSet | setOf(classHan)                    // \p{L}
	markedSet = letterSet | setOf(classMark)                   // [\p{L}\p{M}]
	numberSet = setOf(classNumber)                             // \p{N}
	punctSet  = setOf(classPunct, classSymbol)                 // [\p{P}\p{S}]
	restSet   = anyClass &^ (spaceSet | letterSet | numberSet) // [^\s\p{L}\p{N}]
)

// Code points from here on are classOther, except for marks (variation selectors) from U+E0100 on.
const classTableSize = 0x32400

// newChars are characters of Unicode 15.1 that vocabularies use, but that the tables of older supported toolchains
// lack.
var newChars = []struct {
	first, last rune
	class
}{
	{0x2EBF0, 0x2EE5D, classLetter}, // ideographs, extension I
	{0x2FFC, 0x2FFF, classSymbol},   // ideographic description characters
	{0x31EF, 0x31EF, classSymbol},
}

var classTable = sync.OnceValue(func() *[classTableSize]class {
	t := new([classTableSize]class)
	fill := func(tab *unicode.RangeTable, c class) {
		for _, r := range tab.R16 {
			for x := uint32(r.Lo); x <= uint32(r.Hi); x += uint32(r.Stride) {
				t[x] = c
			}
		}
		for _, r := range tab.R32 {
			for x := r.Lo; x <= r.Hi && x < classTableSize; x += r.Stride {
				t[x] = c
			}
		}
	}
	fill(unicode.L, classLetter)
	fill(unicode.N, classNumber)
	fill(unicode.M, classMark)
	fill(unicode.P, classPunct)
	fill(unicode.S, classSymbol)
	fill(unicode.White_Space, classSpace)
	for _, c := range newChars {
		for x := c.first; x <= c.last; x++ {
			t[x] = c.class
		}
	}
	for x := 'A'; x <= 'Z'; x++ {
		t[x], t[x|0x20] = classUpper, classLower
	}
	for _, r := range hanRanges {
		for x := r.first; x <= r.last; x++ {
			if t[x] == classLetter {
				t[x] = classHan
			}
		}
	}
	t[zeroWidthNonJoiner], t[zeroWidthJoiner] = classJoiner, classJoiner
	return t
})

var asciiClass = func() (t [utf8.RuneSelf]class) {
	copy(t[:], classTable()[:])
	return t
}()

const zeroWidthNonJoiner, zeroWidthJoiner = 0x200C, 0x200D

func classOf(r rune) class {
	if uint32(r) < utf8.RuneSelf {
		return asciiClass[r]
	}
	if uint32(r) < classTableSize {
		return classTable()[r]
	}
	if r >= 0xE0100 && r <= 0xE01EF {
		return classMark
	}
	return classOther
}

// decodeRune returns the first code point of s, U+FFFD for an invalid byte, and its length in bytes, which is 0 at
// the end of s. It accepts surrogates as code points, as llama.cpp does.
func decodeRune(s string) (rune, int) {
	if s != "" && s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	if isSurrogate(s) {
		return rune(0xD000 | int32(s[1]&0x3F)<<6 | int32(s[2]&0x3F)), 3
	}
	return utf8.DecodeRuneInString(s)
}

// isSurrogate reports whether s starts with an encoded surrogate, U+D800 to U+DFFF, which is invalid UTF-8.
func isSurrogate(s string) bool {
	return len(s) >= 3 && s[0] == 0xED && s[1]&0xE0 == 0xA0 && s[2]&0xC0 == 0x80
}

// cutCharLen returns the length of an incomplete character at the end of s.
func cutCharLen(s string) int {
	for n := 1; n <= min(len(s), utf8.UTFMax-1); n++ {
		if b := s[len(s)-n]; b >= 0xC0 {
			if utf8Len(b) > n {
				return n
			}
			return 0
		}
	}
	return 0
}

// utf8Len returns the length of a character that starts with b, or 1 if b cannot start one.
func utf8Len(b byte) int {
	switch {
	case b >= 0xF0:
		return 4
	case b >= 0xE0:
		return 3
	case b >= 0xC0:
		return 2
	}
	return 1
}

// sanitize replaces every byte that decodeRune finds invalid by U+FFFD.
func sanitize(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/2)
	for s != "" {
		r, n := decodeRune(s)
		if r == utf8.RuneError {
			b.WriteRune(r)
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// normalizeUTF8 replaces the invalid bytes of raw[:n]. It waits for the end of an incomplete character, unless the
// text ends here.
func normalizeUTF8(raw string, last bool) (text string, n int) {
	n = len(raw)
	if !last {
		n -= cutCharLen(raw)
	}
	return sanitize(raw[:n]), n
}

// normalizedUTF8 returns the length of the first character or invalid byte of raw, and the length after replacement.
func normalizedUTF8(raw string) (n, normalized int) {
	r, n := decodeRune(raw)
	if r == utf8.RuneError {
		return n, len(string(utf8.RuneError))
	}
	return n, n
}

// byteRunes maps each byte to the printable character that stands for it in a byte-level vocabulary; runeBytes is
// the inverse.
var byteRunes, runeBytes = func() ([256]rune, map[rune]byte) {
	var to [256]rune
	from := make(map[rune]byte, 256)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		printable := r >= '!' && r <= '~' || r >= 0xA1 && r <= 0xAC || r >= 0xAE
		if !printable {
			r = next
			next++
		}
		to[b] = r
		from[r] = byte(b)
	}
	return to, from
}()

// encodeBytes replaces each byte of s by its character.
func encodeBytes(s string) string {
	var b strings.Builder
	b.Grow(2 * len(s))
	for i := range len(s) {
		b.WriteRune(byteRunes[s[i]])
	}
	return b.String()
}

// decodeBytes is the inverse of encodeBytes; ok is false if a character of s
// stands for no byte.
func decodeBytes(s string) (raw string, ok bool) {
	out := make([]byte, 0, len(s))
	for s != "" {
		r, n := decodeRune(s)
		b, known := runeBytes[r]
		if !known {
			return "", false
		}
		out = append(out, b)
		s = s[n:]
	}
	return string(out), true
}
