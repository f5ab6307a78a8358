package tokenizer

import (
	"maps"
	"slices"
	"sort"
	"strings"
)

// rwkv takes the longest token that the rest of the text begins with, byte by byte, as RWKV's World vocabulary is used. Words
// are these tokens.
type rwkv struct {
	wholeWords
	tokens  []rwkvToken // by their bytes
	ids     map[string]ID
	unknown ID
	maxSize int // size of the longest token in bytes
}

type rwkvToken struct {
	bytes string
	id    ID
}

func newRWKV(t *Tokenizer) *rwkv {
	r := &rwkv{ids: make(map[string]ID, len(t.texts)), unknown: t.cfg.Unknown, maxSize: 1}
	for id, text := range t.texts {
		raw := unescape(text)
		r.ids[raw] = ID(id) // the last one of equal tokens
		r.maxSize = max(r.maxSize, len(raw))
	}
	delete(r.ids, "")
	for _, raw := range slices.Sorted(maps.Keys(r.ids)) {
		r.tokens = append(r.tokens, rwkvToken{raw, r.ids[raw]})
	}
	return r
}

// unescape returns the bytes of a token, which files escape as Python's literals of bytes.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' {
			b.WriteByte(c)
			continue
		}
		if i++; i == len(text) {
			break
		}
		switch c = text[i]; c {
		case 't':
			c = '\t'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 'x':
			if i+2 >= len(text) {
				return b.String()
			}
			c = lowerHexDigit(text[i+1])<<4 + lowerHexDigit(text[i+2])
			i += 2
		}
		b.WriteByte(c)
	}
	return b.String()
}

func lowerHexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// longestToken returns the size of the longest token that text begins with; 0 if there is none.
func (r *rwkv) longestToken(text string) (size int) {
	from, to := 0, len(r.tokens) // tokens that begin as text does
	for depth := 0; depth < len(text) && from < to; depth++ {
		at := func(i int) int {
			if token := r.tokens[from+i].bytes; depth < len(token) {
				return int(token[depth])
			}
			return -1
		}
		next := int(text[depth])
		first := sort.Search(to-from, func(i int) bool { return at(i) >= next })
		end := sort.Search(to-from, func(i int) bool { return at(i) > next })
		from, to = from+first, from+end
		if from < to && len(r.tokens[from].bytes) == depth+1 {
			size = depth + 1
		}
	}
	return size
}

func (r *rwkv) normalize(raw string, _ bool) (text string, n int) { return raw, len(raw) }

func (r *rwkv) normalizedLen(string) (n, normalized int) { return 1, 1 }

func (r *rwkv) split(text string, yield func(word string)) {
	for text != "" {
		n := max(1, r.longestToken(text))
		yield(text[:n])
		text = text[n:]
	}
}

// settled leaves as many bytes as could make a token longer.
func (r *rwkv) settled(text string) int { return max(0, len(text)-r.maxSize+1) }

func (r *rwkv) newMerger() merger { return &rwkvMerger{rwkv: r} }

// An rwkvMerger has the buffer for one word.
type rwkvMerger struct {
	*rwkv
	piece [1]piece
}

func (r *rwkvMerger) word(word string) []piece { return r.merge(word) }

func (r *rwkvMerger) merge(text string) []piece {
	id, ok := r.ids[text]
	if !ok {
		id = r.unknown
	}
	r.piece[0] = piece{int32(len(text)), id}
	return r.piece[:]
}
