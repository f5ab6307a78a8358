package grammar

import "unicode/utf8"

type byteRange struct{ lo, hi byte }

// eachEncoding calls f with sequences of byte ranges that together are the UTF-8 encodings of the code points lo to hi.
// Surrogates have none.
func eachEncoding(lo, hi rune, f func([]byteRange)) {
	for _, part := range []runeRange{{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, utf8.MaxRune}} {
		if from, to := max(lo, part.lo), min(hi, part.hi); from <= to {
			splitEncoding(from, to, f)
		}
	}
}

// splitEncoding splits a range of code points with encodings of equal length, so that each part is a product of byte ranges.
func splitEncoding(lo, hi rune, f func([]byteRange)) {
	for bits := 6; bits < 24; bits += 6 {
		low := rune(1)<<bits - 1 // of the last bytes
		if lo|low >= hi|low {
			break
		}
		if lo&low != 0 {
			splitEncoding(lo, lo|low, f)
			splitEncoding(lo|low+1, hi, f)
			return
		}
		if hi&low != low {
			splitEncoding(lo, hi&^low-1, f)
			splitEncoding(hi&^low, hi, f)
			return
		}
	}
	first, last := utf8.AppendRune(nil, lo), utf8.AppendRune(nil, hi)
	ranges := make([]byteRange, len(first))
	for i := range ranges {
		ranges[i] = byteRange{first[i], last[i]}
	}
	f(ranges)
}
