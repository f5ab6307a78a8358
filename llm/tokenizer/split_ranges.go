package tokenizer

import "slices"

// A charSet is a set of code points: non-overlapping ranges in increasing order.
type charSet []charRange

type charRange struct{ first, last rune }

// ranges parses a set in the syntax of a regular expression's brackets, without escapes.
func ranges(text string) (s charSet) {
	chars := []rune(text)
	for i := 0; i < len(chars); i++ {
		r := charRange{chars[i], chars[i]}
		if i+2 < len(chars) && chars[i+1] == '-' {
			r.last = chars[i+2]
			i += 2
		}
		s = append(s, r)
	}
	slices.SortFunc(s, func(a, b charRange) int { return int(a.first - b.first) })
	merged := s[:1]
	for _, r := range s[1:] {
		if last := &merged[len(merged)-1]; r.first <= last.last {
			last.last = max(last.last, r.last)
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}

func (s charSet) has(r rune) bool {
	i, found := slices.BinarySearchFunc(s, r, func(c charRange, r rune) int { return int(c.first - r) })
	return found || i > 0 && r <= s[i-1].last
}

// run matches a run of characters of the set, except white space.
func (s charSet) run(text string) int {
	n := 0
	for n < len(text) {
		r, size := decodeRune(text[n:])
		if !s.has(r) || classOf(r) == classSpace {
			return n
		}
		n += size
	}
	return n
}

// runOutside matches a run of characters that are neither in the set nor white space.
func (s charSet) runOutside(text string) int {
	n := 0
	for n < len(text) {
		r, size := decodeRune(text[n:])
		if s.has(r) || classOf(r) == classSpace {
			return n
		}
		n += size
	}
	return n
}

// Scripts of split patterns.
var (
	// hanRanges are the blocks of ideographs.
	hanRanges = ranges("\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF\U00020000-\U0002A6DF\U0002A700-\U0002EBEF\U0002F800-\U0002FA1F")
	// kanaAndHan are Japanese kana, and ideographs of Unicode 1.
	kanaAndHan = ranges("\u3040-\u309F\u30A0-\u30FF\u4E00-\u9FA5")
	// eastern are scripts without cases up to ideographs, and Korean.
	eastern  = ranges("\u0800-\u4E00\u4E00-\u9FA5\uAC00-\uD7FF")
	hangul   = ranges("\u3131-\u318E\uAC00-\uD7A3")
	bopomofo = ranges("\u3105-\u312F")
	// fullWidth is punctuation of Chinese.
	fullWidth = ranges("\u2014\u2018\u2019\u201C\u201D\u2026\u3001-\u303F\uFE30-\uFE4F\uFF01\uFF0C\uFF1A\uFF1B")
	// printed is ASCII without digits, quotation marks and full-width ASCII.
	printed = ranges("!-/:-~\u2018-\u201F\u3001\u3002\uFF01-\uFF0F\uFF1A-\uFF5E")
	// sentenceMarks end words in bloom.
	sentenceMarks = ranges("!(),.?|\u060C\u06D4\u0964\u2026\u3001\u3002\uFF0C")
	// unspaced are scripts that are written without spaces, and Korean.
	unspaced = ranges("\u0E40-\u0E7F\u0E80-\u0EFF\u1000-\u109F\u1100-\u11FF\u1780-\u17FF\u2F00-\u2FDF\u3040-\u309F\u30A0-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\u8C48-\uFAFF\uA9E0-\uA9FF\uAA60-\uAA7F\uAC00-\uD7AF\uFF65-\uFF9F")
	// bicameral are letters with upper and lower case.
	bicameral = ranges(casedLetters)
)

const casedLetters = "A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF" +
	"\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5" +
	"\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA" +
	"\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45" +
	"\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE" +
	"\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102" +
	"\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139" +
	"\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3" +
	"\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06" +
	"\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3" +
	"\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF" +
	"\U0001E900-\U0001E943"
