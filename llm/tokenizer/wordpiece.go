package tokenizer

import (
	"strings"
	"unicode"
)

// wordPiece cuts words into the longest tokens from their beginning on, as BERT does (arXiv 1810.04805, from
// 1609.08144). In files, tokens that begin a word start with ▁; the others have no mark.
type wordPiece struct {
	wholeWords
	ids          map[string]ID
	unknown      ID
	maxSize      int // size of the longest token in bytes
	lowercase    bool
	stripAccents bool
}

func newWordPiece(t *Tokenizer) *wordPiece {
	w := &wordPiece{ids: t.ids, unknown: t.cfg.Unknown, lowercase: t.cfg.Lowercase, stripAccents: t.cfg.StripAccents}
	for _, text := range t.texts {
		w.maxSize = max(w.maxSize, len(text))
	}
	return w
}

// wordEnd separates words in normalized text, which does not contain it otherwise.
const wordEnd = "\x00"

// normalize ends words at white space and on both sides of punctuation and Chinese characters.
func (w *wordPiece) normalize(raw string, last bool) (text string, n int) {
	n = len(raw)
	if !last {
		n -= cutCharLen(raw)
	}
	var b strings.Builder
	b.Grow(n + n/2)
	for rest := raw[:n]; rest != ""; {
		r, size := decodeRune(rest)
		b.WriteString(w.normalized(r))
		rest = rest[size:]
	}
	return b.String(), n
}

func (w *wordPiece) normalizedLen(raw string) (n, normalized int) {
	r, n := decodeRune(raw)
	return n, len(w.normalized(r))
}

// normalized returns the normalized text of a character.
func (w *wordPiece) normalized(r rune) string {
	if w.stripAccents {
		r = baseRune(r)
	}
	c := classOf(r)
	switch {
	case c == classSpace:
		return wordEnd
	case r == 0 || r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs), w.stripAccents && c == classMark:
		return ""
	}
	lower := r
	if w.lowercase {
		lower = unicode.ToLower(r)
	}
	if c == classPunct || c == classSymbol && r < 0x7F || isChinese(r) {
		return wordEnd + string(lower) + wordEnd
	}
	return string(lower)
}

// isChinese reports whether r is an ideograph, which is a word of its own. As in BERT's first implementations, a
// part of extension E is not.
func isChinese(r rune) bool {
	for _, x := range [][2]rune{
		{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F},
	} {
		if r >= x[0] && r <= x[1] {
			return true
		}
	}
	return false
}

// split yields words with the wordEnds before them.
func (w *wordPiece) split(text string, yield func(word string)) {
	splitBefore(wordEnd, text, yield)
}

func (w *wordPiece) settled(text string) int { return len(text) }

func (w *wordPiece) newMerger() merger { return &wordPieceMerger{wordPiece: w} }

// A wordPieceMerger has the buffer for one word.
type wordPieceMerger struct {
	*wordPiece
	pieces []piece
}

func (w *wordPieceMerger) word(word string) []piece { return w.merge(word) }

func (w *wordPieceMerger) merge(text string) []piece {
	w.pieces = w.pieces[:0]
	word := strings.TrimLeft(text, wordEnd)
	ends := len(text) - len(word)
	if word == "" {
		return append(w.pieces, piece{int32(ends), noToken})
	}
	marked := space + word
	for at := 0; at < len(marked); {
		to := min(len(marked), at+w.maxSize)
		for to > at {
			if _, ok := w.ids[marked[at:to]]; ok {
				break
			}
			to--
		}
		if to == at {
			w.pieces = append(w.pieces[:0], piece{int32(len(text)), w.unknown})
			return w.pieces
		}
		size := to - at
		if at == 0 { // the mark ▁ takes the place of the wordEnds
			size += ends - len(space)
		}
		w.pieces = append(w.pieces, piece{int32(size), w.ids[marked[at:to]]})
		at = to
	}
	return w.pieces
}
