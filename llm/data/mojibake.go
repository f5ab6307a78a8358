package data

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A codePage is an encoding with one byte per character, with which UTF-8 may have been decoded
// wrongly: the bytes of its non-ASCII characters.
type codePage map[rune]byte

// pageOf makes a code page from its characters from 0x80 on. Undefined bytes are Latin-1, as in most
// programs.
func pageOf(upper string) codePage {
	p, b := codePage{}, 0x80
	for _, r := range upper {
		p[r] = byte(b)
		b++
	}
	return p
}

// codePages are Windows' code pages for Western Europe, Central Europe and Cyrillic, and the one of
// old Macs.
var codePages = []codePage{
	pageOf("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ"),
	pageOf("€\u0081‚\u0083„…†‡\u0088‰Š‹ŚŤŽŹ\u0090‘’“”•–—\u0098™š›śťžź\u00a0ˇ˘Ł¤Ą¦§¨©Ş«¬\u00ad®Ż°±˛ł´µ¶·¸ąş»Ľ˝ľżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙"),
	pageOf("ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—\u0098™љ›њќћџ\u00a0ЎўЈ¤Ґ¦§Ё©Є«¬\u00ad®Ї°±Ііґµ¶·ё№є»јЅѕїАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя"),
	pageOf("ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»…\u00a0ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\uf8ffÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ"),
}

// mojibake returns UTF-8 that was decoded with another encoding, such as Ã© for é, or the replacement
// character of a lost character; "" if there is none. Some pairs occur in no language; others, such as
// ß“, count only if three are in a row.
func mojibake(text string) string {
	if strings.ContainsRune(text, utf8.RuneError) {
		return string(utf8.RuneError)
	}
	if isASCII(text) {
		return ""
	}
	const lostTwice = "锟斤拷" // two replacement characters decoded as GBK
	if strings.Contains(text, lostTwice) {
		return lostTwice
	}
	runes := []rune(text)
	for _, p := range codePages {
		if found := p.mojibake(runes); found != "" {
			return found
		}
	}
	return ""
}

func (p codePage) mojibake(runes []rune) string {
	const needed = 3
	inRow := 0
	for i := 0; i < len(runes); {
		n, isClear := p.garbled(runes, i)
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

// garbled returns the number of characters from i on that are the bytes of one UTF-8 character; 0 if
// they are not. isClear reports that the character is a Western letter, a typographic sign, an emoji
// or the replacement character, so there is little doubt.
func (p codePage) garbled(runes []rune, i int) (n int, isClear bool) {
	if runes[i] < utf8.RuneSelf || p[runes[i]] < 0xc2 { // not a leading byte of UTF-8
		return 0, false
	}
	var buffer [utf8.UTFMax]byte
	bytes := buffer[:0]
	for _, r := range runes[i:min(len(runes), i+utf8.UTFMax)] {
		b, known := p[r]
		if !known {
			break
		}
		bytes = append(bytes, b)
	}
	r, n := utf8.DecodeRune(bytes)
	if r == utf8.RuneError && n < 3 || n < 2 {
		return 0, false
	}
	switch bytes[0] {
	case 0xc2, 0xc3:
		return n, bytes[1] >= 0xa0 && p.isInWord(runes, i) // signs below 0xa0: a capital Ã in quotes
	case 0xe2:
		return n, bytes[1] == 0x80
	case 0xf0:
		return n, bytes[1] == 0x9f
	}
	return n, r == utf8.RuneError
}

// isInWord reports whether two characters that may be the bytes of one letter are where a letter would
// fit and they would not: a capital inside a lower-case word, or a sign inside a word, except
// mathematical signs.
func (p codePage) isInWord(runes []rune, i int) bool {
	var before, after rune
	if i > 0 {
		before = runes[i-1]
	}
	if i+2 < len(runes) {
		after = runes[i+2]
	}
	lead, next := runes[i], runes[i+1]
	switch {
	case p['Ã'] == 0xc3: // Western Europe
		return next != '»' && next != '«' || !unicode.IsUpper(before) || unicode.IsLetter(after)
	case !unicode.IsLetter(before):
		return false
	case unicode.IsLetter(lead):
		return unicode.IsLower(before) && unicode.IsUpper(lead)
	}
	return !unicode.In(next, unicode.Sm, unicode.Greek)
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
