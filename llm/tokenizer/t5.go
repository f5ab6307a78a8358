package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// t5 replaces characters by a table of the file, and cuts the text into the tokens with the largest sum of scores,
// as SentencePiece's unigram model does (arXiv 1804.10959).
type t5 struct {
	wholeWords
	prefixes prefixMap
	scores   []float64 // by token
	unknown  ID
	// unknownScore is the score of a character without a token.
	unknownScore float64
	chars        charsMap
	mergesSpaces bool
	prefixSpace  bool
	whole        bool // words cannot be cut independently: tokens span blanks
}

// unknownPenalty is subtracted from the lowest token score to get unknownScore.
const unknownPenalty = 10

func newT5(t *Tokenizer) (*t5, error) {
	if t.cfg.Unknown == None {
		return nil, fmt.Errorf("tokenizer: a vocabulary of %q needs an unknown token", ModelT5)
	}
	u := &t5{
		prefixes: prefixMap{}, scores: make([]float64, len(t.texts)), unknown: t.cfg.Unknown,
		mergesSpaces: t.cfg.MergeSpaces, prefixSpace: t.cfg.AddSpacePrefix, whole: !t.cfg.MergeSpaces,
	}
	var err error
	if u.chars, err = newCharsMap(t.cfg.CharsMap); err != nil {
		return nil, err
	}
	lowest := float32(math.MaxFloat32)
	for id, text := range t.texts {
		a, unused := t.attrs[id], len(t.cfg.Types) > 0 && t.cfg.Types[id] == Unused
		var score float32
		if len(t.cfg.Scores) > 0 {
			score = t.cfg.Scores[id]
		}
		if a&attrNormal != 0 {
			lowest = min(lowest, score)
		}
		if a&(attrNormal|attrUserDefined) == 0 && !unused {
			continue
		}
		if a&attrUserDefined == 0 {
			u.scores[id] = float64(score)
		}
		u.prefixes.add(ID(id), text)
		u.whole = u.whole || strings.LastIndex(text, space) > 0 // a blank after the first character
	}
	u.unknownScore = float64(lowest - unknownPenalty)
	if id, ok := u.prefixes[space]; !ok || id == None { // unknown characters in a row are one token, even across blanks
		u.whole = true
	}
	return u, nil
}

// normalize waits for the end of the text, because a replacement may depend on the characters that follow.
func (u *t5) normalize(raw string, last bool) (text string, n int) {
	if !last {
		return "", 0
	}
	var b strings.Builder
	b.Grow(len(raw))
	for rest := raw; rest != ""; {
		to, size := u.chars.replace(rest)
		b.WriteString(to)
		rest = rest[size:]
	}
	return b.String(), len(raw)
}

func (u *t5) normalizedLen(raw string) (n, normalized int) {
	to, n := u.chars.replace(raw)
	return n, len(to)
}

// split yields words with their leading blanks.
func (u *t5) split(text string, yield func(word string)) {
	if !u.whole {
		splitBefore(" ", text, yield)
	} else if text != "" {
		yield(text)
	}
}

func (u *t5) settled(string) int { return 0 }

func (u *t5) newMerger() merger { return &t5Merger{t5: u} }

// A t5Merger has the buffers for one word.
type t5Merger struct {
	*t5
	marked []byte // the word with blanks written as ▁
	ends   []int  // end of each byte of marked, as an offset in the word
	best   []bestT5
	pieces []piece
}

// A bestT5 is the last piece of the best segmentation up to an offset.
type bestT5 struct {
	score  float64 // of the whole segmentation
	from   int
	symbol ID
}

func (u *t5Merger) word(word string) []piece { return u.merge(word) }

// mark writes blanks as ▁: one before each run of other characters, or one per blank, and one more at the beginning.
func (u *t5Merger) mark(text string) {
	u.marked, u.ends = u.marked[:0], u.ends[:0]
	put := func(s string, end int) {
		u.marked = append(u.marked, s...)
		for range len(s) {
			u.ends = append(u.ends, end)
		}
	}
	prefixed, inside := false, false
	for i := range len(text) {
		if text[i] == ' ' {
			inside = false
			if !u.mergesSpaces {
				put(space, i+1)
			}
			continue
		}
		if !inside {
			inside = true
			if u.prefixSpace && !prefixed || u.mergesSpaces {
				put(space, i)
				prefixed = true
			}
		}
		put(text[i:i+1], i+1)
	}
}

func (u *t5Merger) merge(word string) []piece {
	u.pieces = u.pieces[:0]
	u.mark(word)
	text := string(u.marked)
	if text == "" {
		return append(u.pieces, piece{int32(len(word)), noToken})
	}
	u.best = slices.Grow(u.best[:0], len(text)+1)[:len(text)+1]
	for i := range u.best {
		u.best[i] = bestT5{score: -math.MaxFloat64}
	}
	u.best[0].score = 0
	offer := func(from, to int, symbol ID, score float64) {
		if sum := u.best[from].score + score; sum > u.best[to].score {
			u.best[to] = bestT5{sum, from, symbol}
		}
	}
	for from := 0; from < len(text); {
		char := len(nextChar(text[from:]))
		known := false
		for size, id := range u.prefixes.tokensOf(text[from:]) {
			known = known || size == char
			offer(from, from+size, id, u.scores[id])
		}
		if !known {
			offer(from, from+char, u.unknown, u.unknownScore)
		}
		from += char
	}
	at := len(word)
	for to := len(text); to > 0; to = u.best[to].from {
		b := u.best[to]
		from := 0
		if b.from > 0 {
			from = u.ends[b.from-1]
		}
		if n := len(u.pieces); n > 0 && b.symbol == u.unknown && u.pieces[n-1].symbol == u.unknown {
			u.pieces[n-1].size += int32(at - from) // unknown characters in a row are one token
		} else {
			u.pieces = append(u.pieces, piece{int32(at - from), b.symbol})
		}
		at = from
	}
	slices.Reverse(u.pieces)
	return u.pieces
}

// A charsMap replaces byte sequences at the beginning of a text: a double-array trie with nodes of 32 bits, base and
// label, and the zero-terminated replacement strings of its leaves (arXiv 1804.10959, SentencePiece's
// precompiled_charsmap).
type charsMap struct {
	nodes        []uint32
	replacements string
}

// newCharsMap parses the table: the size of the nodes in bytes, the nodes, and the strings.
func newCharsMap(raw []byte) (charsMap, error) {
	if len(raw) == 0 {
		return charsMap{}, nil
	}
	if len(raw) < 4 {
		return charsMap{}, fmt.Errorf("tokenizer: precompiled_charsmap has %d bytes, fewer than the size of its nodes", len(raw))
	}
	size := int64(binary.LittleEndian.Uint32(raw))
	if size%4 != 0 || 4+size >= int64(len(raw)) {
		return charsMap{}, fmt.Errorf("tokenizer: precompiled_charsmap has nodes of %d bytes in %d", size, len(raw))
	}
	m := charsMap{nodes: make([]uint32, size/4), replacements: string(raw[4+size:])}
	for i := range m.nodes {
		m.nodes[i] = binary.LittleEndian.Uint32(raw[4+4*i:])
	}
	return m, nil
}

// node returns node i, or 0 if there is none.
func (m charsMap) node(i uint32) uint32 {
	if int64(i) >= int64(len(m.nodes)) {
		return 0
	}
	return m.nodes[i]
}

// base returns the offset from a node to its children.
func base(node uint32) uint32 { return node >> 10 << (node & (1 << 9) >> 6) }

// replace returns the replacement of the longest known prefix of text, and the length of the prefix. An unknown
// character stays; an invalid byte becomes U+FFFD.
func (m charsMap) replace(text string) (to string, n int) {
	at := base(m.node(0))
	for i := range len(text) {
		c := uint32(text[i])
		if len(m.nodes) == 0 || c == 0 {
			break
		}
		at ^= c
		node := m.node(at)
		if node&(1<<31|0xFF) != c {
			break
		}
		at ^= base(node)
		if node>>8&1 != 0 {
			if from := int64(m.node(at) & (1<<31 - 1)); from < int64(len(m.replacements)) {
				to, _, _ = strings.Cut(m.replacements[from:], "\x00")
				n = i + 1
			}
		}
	}
	if n > 0 {
		return to, n
	}
	r, n := decodeRune(text)
	if r == '\uFFFD' {
		return "\uFFFD", n
	}
	return text[:n], n
}
