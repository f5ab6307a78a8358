package data

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A codePage is an encoding of a byte for each character, by which UTF-8 is read wrongly: the bytes of those that are not ASCII.
type codePage map[rune]byte

// pageOf makes one of its characters from 0x80 on. What a page leaves free, programs read as Latin-1.
func pageOf(upper string) codePage {
	p, b := codePage{}, 0x80
	for _, r := range upper {
		p[r] = byte(b)
		b++
	}
	return p
}

// codePages are Windows' code pages for Western Europe, Central Europe and Cyrillic, and the one of old
// Macs.
var codePages = []codePage{
	pageOf("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ"),
	pageOf("€\u0081‚\u0083„…†‡\u0088‰Š‹ŚŤŽŹ\u0090‘’“”•–—\u0098™š›śťžź\u00a0ˇ˘Ł¤Ą¦§¨©Ş«¬\u00ad®Ż°±˛ł´µ¶·¸ąş»Ľ˝ľżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙"),
	pageOf("ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—\u0098™љ›њќћџ\u00a0ЎўЈ¤Ґ¦§Ё©Є«¬\u00ad®Ї°±Ііґµ¶·ё№є»јЅѕїАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя"),
	pageOf("ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»…\u00a0ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\uf8ffÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ"),
}

// mojibake finds UTF-8 that was read by another encoding, such as Ã© of é, or the mark of a character that was lost. It is ""
// if there is none. Some pairs occur in no language; of others, such as ß“, three in a row are needed.
func mojibake(text string) string {
	if strings.ContainsRune(text, utf8.RuneError) {
		return string(utf8.RuneError)
	}
	if isASCII(text) {
		return ""
	}
	const lostTwice = "锟斤拷" // two marks of lost characters, read by GBK
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

// garbled counts the characters from i on that are the bytes of one in UTF-8, 0 if they are not. They clearly are where these
// are of the letters of the West, of typographic signs, of emoji, or of the mark of a lost character.
func (p codePage) garbled(runes []rune, i int) (n int, isClear bool) {
	if runes[i] < utf8.RuneSelf || p[runes[i]] < 0xc2 { // which begins none
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
		return n, bytes[1] >= 0xa0 && p.isInWord(runes, i) // below are signs: a capital Ã in quotes
	case 0xe2:
		return n, bytes[1] == 0x80
	case 0xf0:
		return n, bytes[1] == 0x9f
	}
	return n, r == utf8.RuneError
}

// isInWord reports whether two characters that may be the bytes of one letter stand where a letter would and they
// themselves would not: a capital inside a word of small letters, or a sign inside a word, except signs of formulas.
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
