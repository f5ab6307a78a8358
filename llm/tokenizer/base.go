package tokenizer

import (
	"strconv"
	"strings"
	"sync"
)

// baseRune returns the first code point of the canonical decomposition of r: "e" for "é".
func baseRune(r rune) rune {
	const firstSyllable, syllables, perLead, firstLead = 0xAC00, 11172, 588, 0x1100
	switch {
	case r < 0xC0:
		return r
	case r >= firstSyllable && r < firstSyllable+syllables:
		return firstLead + (r-firstSyllable)/perLead
	}
	if base, ok := baseRunes()[r]; ok {
		return base
	}
	return r
}

var baseRunes = sync.OnceValue(func() map[rune]rune {
	bases := map[rune]rune{}
	number := func(s string) rune {
		n, _ := strconv.ParseUint(s, 16, 21)
		return rune(n)
	}
	for _, field := range strings.Fields(baseTable) {
		of, base, _ := strings.Cut(field, "=")
		first, count, several := strings.Cut(of, ":")
		n := rune(1)
		if several {
			n = number(count)
		}
		for i := range n {
			bases[number(first)+i] = number(base)
		}
	}
	return bases
})
