package data

import (
	"strings"
	"unicode/utf8"
)

// windows1252 are the characters of the bytes 0x80 to 0x9f in the encoding that old systems of the West have.
var windows1252 = map[rune]byte{
	'€': 0x80, '‚': 0x82, 'ƒ': 0x83, '„': 0x84, '…': 0x85, '†': 0x86, '‡': 0x87, 'ˆ': 0x88, '‰': 0x89, 'Š': 0x8a, '‹': 0x8b,
	'Œ': 0x8c, 'Ž': 0x8e, '‘': 0x91, '’': 0x92, '“': 0x93, '”': 0x94, '•': 0x95, '–': 0x96, '—': 0x97, '˜': 0x98, '™': 0x99,
	'š': 0x9a, '›': 0x9b, 'œ': 0x9c, 'ž': 0x9e, 'Ÿ': 0x9f,
}

// mojibake finds UTF-8 that was read by Windows-1252 or Latin-1, such as Ã© of é, or the mark of a character that was lost.
// It is "" if there is none. Some pairs occur in no language; of others, such as ß“, three in a row are needed.
func mojibake(text string) string {
	if strings.ContainsRune(text, utf8.RuneError) {
		return string(utf8.RuneError)
	}
	if isASCII(text) {
		return ""
	}
	const needed = 3
	runes, inRow := []rune(text), 0
	for i := 0; i < len(runes); {
		n, isClear := garbled(runes[i:min(len(runes), i+utf8.UTFMax)])
		switch {
		case n == 0 && runes[i] == ' ' && inRow > 0:
			i++
			continue
		case n == 0:
			inRow = 0
			i++
			continue
		}
		if inRow++; isClear || inRow == needed {
			return string(runes[i : i+n])
		}
		i += n
	}
	return ""
}

// garbled counts the characters at the start that are the bytes of one in UTF-8, 0 if they are not. They clearly are where
// these are of the letters of the West, of typographic signs, or of emoji.
func garbled(runes []rune) (n int, isClear bool) {
	var bytes []byte
	for _, r := range runes {
		b, known := windows1252[r]
		if !known && r >= 0x80 && r <= 0xff {
			b, known = byte(r), true
		}
		if !known {
			break
		}
		bytes = append(bytes, b)
	}
	r, n := utf8.DecodeRune(bytes)
	if r == utf8.RuneError || n < 2 {
		return 0, false
	}
	switch bytes[0] {
	case 0xc2, 0xc3:
		return n, bytes[1] >= 0xa0 // below are signs: a capital Ã in quotes
	case 0xe2:
		return n, bytes[1] == 0x80
	case 0xf0:
		return n, bytes[1] == 0x9f
	}
	return n, false
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
