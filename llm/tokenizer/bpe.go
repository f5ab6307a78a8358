package tokenizer

import (
	"math"
	"strings"
	"unicode/utf8"
)

// bpe merges the bytes of a word, or its characters, by rank. It numbers every text that these and merges can form
// as a symbol, whether it is a token or not.
type bpe struct {
	rule     preRule
	whole    map[string]int32 // symbols of words that are tokens as a whole
	bytes    [256]int32       // symbol of each byte
	chars    map[string]int32 // symbol of each known character
	unknown  [maxCharLen + 1]int32
	byteIDs  [256]ID // tokens of the bytes of a character that is not a token
	merges   map[uint64]merge
	symbols  []symbol
	maxSize  int // size of the longest symbol
	maxWhole int // size of the longest word in whole
}

// A symbol is a text that merges can form.
type symbol struct {
	size    int32 // in bytes of the word
	id      ID    // its token, or None
	unknown bool  // it stands for any unknown character of this size
	spread  []symbolToken
}

// A symbolToken is one of the tokens that spell a symbol without a token of its own.
type symbolToken struct {
	id  ID
	end int32 // offset of its end in the symbol
}

type merge struct {
	rank   int32
	symbol int32 // symbol of the merged pair
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

func newBPE(t *Tokenizer, rule preRule) *bpe {
	b := &bpe{rule: rule, merges: make(map[uint64]merge, len(t.cfg.Merges)), maxSize: 1}
	symbols := make(map[string]int32, 256+2*len(t.cfg.Merges))
	intern := func(text string) int32 {
		s, ok := symbols[text]
		if !ok {
			s = int32(len(b.symbols))
			symbols[text] = s
			b.symbols = append(b.symbols, b.newSymbol(t, text))
		}
		return s
	}
	if rule.chars {
		b.addChars(t, intern)
	} else {
		for i := range b.bytes {
			b.bytes[i] = intern(string(byteRunes[i]))
		}
	}
	for rank, m := range t.cfg.Merges {
		left, right, _ := splitMerge(m)
		key := pairKey(intern(left), intern(right))
		if _, ok := b.merges[key]; !ok {
			merged := intern(left + right)
			b.merges[key] = merge{int32(rank), merged}
			b.maxSize = max(b.maxSize, int(b.symbols[merged].size))
		}
	}
	if rule.chars {
		for text, s := range symbols {
			if text != "" && nextChar(text) == text {
				b.chars[text] = s
			}
		}
	}
	if !rule.ignoreMerges && !rule.wholeLines {
		return b
	}
	b.whole = make(map[string]int32, len(t.texts))
	for _, text := range t.texts {
		if rule.wholeLines && strings.Trim(text, "\n") == "" {
			b.whole[text] = intern(text)
		}
		if raw, ok := decodeBytes(text); ok && rule.ignoreMerges {
			b.whole[raw] = intern(text)
		}
	}
	if rule.firstBlank {
		b.maxWhole = math.MaxInt
	}
	for word := range b.whole {
		b.maxWhole = max(b.maxWhole, len(word))
	}
	return b
}

// addChars adds a symbol for each token that is a character, and for each size one for all other characters.
func (b *bpe) addChars(t *Tokenizer, intern func(string) int32) {
	b.chars = map[string]int32{}
	b.maxSize = maxCharLen
	for i := range b.byteIDs {
		b.byteIDs[i] = None
		if id, ok := t.ids[byteToken(byte(i))]; ok {
			b.byteIDs[i] = id
		}
	}
	for size := range b.unknown {
		b.unknown[size] = int32(len(b.symbols))
		b.symbols = append(b.symbols, symbol{size: int32(size), id: None, unknown: true})
	}
	intern(space)
	for _, text := range t.texts {
		if nextChar(text) == text {
			intern(text)
		}
	}
}

// size returns the number of bytes of a word that a token's text stands for.
func (b *bpe) size(text string) int32 {
	if b.rule.chars {
		return int32(len(text))
	}
	return int32(utf8.RuneCountInString(text))
}

// newSymbol finds the tokens of a text in the alphabet of the vocabulary. A text without a token is spelled by its
// bytes: by the byte-level alphabet if the vocabulary has one, by byte tokens otherwise.
func (b *bpe) newSymbol(t *Tokenizer, text string) symbol {
	s := symbol{size: b.size(text), id: None}
	if id, ok := t.ids[text]; ok {
		s.id = id
		return s
	}
	for i := range len(text) {
		token := text[i : i+1]
		if b.rule.chars {
			token = byteToken(text[i])
		}
		if id, ok := t.ids[token]; ok {
			s.spread = append(s.spread, symbolToken{id, s.size - b.size(text[i+1:])})
		}
	}
	return s
}

// Words up to this many bytes are merged by scanning all pairs at each merge, longer ones with a priority queue.
const shortWord = 32

func (b *bpe) normalize(raw string, last bool) (text string, n int) {
	text, n = normalizeUTF8(raw, last)
	if b.rule.blanks {
		text = strings.ReplaceAll(text, " ", space)
	}
	return text, n
}

func (b *bpe) normalizedLen(raw string) (n, normalized int) {
	if b.rule.blanks && raw[0] == ' ' {
		return 1, len(space)
	}
	return normalizedUTF8(raw)
}

func (b *bpe) split(text string, yield func(word string)) { b.rule.split(text, yield) }

// Patterns look at most this many bytes beyond a word, and through one run of characters.
const lookahead = 12

func (b *bpe) settled(text string) int {
	end := max(0, len(text)-lookahead)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return len(strings.TrimRightFunc(text[:end], b.looksThrough))
}

// contextChars is the number of characters of a run (of letters, numbers or others) after which a pattern certainly
// continues the run: the first two may form a word of their own, such as "'s", and three digits may be isolated.
const contextChars = 16

func (b *bpe) inside(text string) int {
	end := len(text)
	for range contextChars {
		r, n := utf8.DecodeLastRuneInString(text[:end])
		if n == 0 || b.looksThrough(r) {
			return 0
		}
		end -= n
	}
	return end
}

func (b *bpe) looksThrough(r rune) bool { return b.rule.through.has(classOf(r)) }

func (b *bpe) newMerger() merger { return &bpeMerger{bpe: b} }

// A bpeMerger has the buffers for merging one word.
type bpeMerger struct {
	*bpe
	sequence []int32 // symbols of the word
	found    []merge // merge of each symbol with the next; rank −1 if there is none
	links    []link
	queue    queue[rankedPair]
	pieces   []piece
}

func (b *bpeMerger) word(word string) []piece {
	if b.whole != nil {
		if s, ok := b.whole[word]; ok {
			return append(b.pieces[:0], piece{int32(len(word)), s})
		}
	}
	if b.rule.firstBlank && !strings.HasPrefix(word, space) && word[0] != '\n' {
		pieces := b.merge(space + word)
		pieces[0].size -= int32(len(space))
		return pieces
	}
	return b.merge(word)
}

func (b *bpeMerger) merge(text string) []piece {
	b.sequence = b.sequence[:0]
	if b.rule.chars {
		b.startChars(text)
	} else {
		for i := range len(text) {
			b.sequence = append(b.sequence, b.bytes[text[i]])
		}
	}
	if len(text) <= shortWord {
		b.mergeShort()
	} else {
		b.mergeLong()
	}
	b.pieces = b.pieces[:0]
	for _, s := range b.sequence {
		b.pieces = append(b.pieces, piece{b.symbols[s].size, s})
	}
	return b.pieces
}

// startChars sets the sequence to the symbols of a word's characters.
func (b *bpeMerger) startChars(text string) {
	for text != "" {
		char := nextChar(text)
		s, ok := b.chars[char]
		if !ok {
			s = b.unknown[len(char)]
		}
		b.sequence = append(b.sequence, s)
		text = text[len(char):]
	}
}

func (b *bpeMerger) longest() int { return b.maxSize }

func (b *bpeMerger) longestWhole() int { return b.maxWhole }

func (b *bpeMerger) wholeChars(text []byte, n int) int {
	if n >= len(text) {
		return len(text)
	}
	if b.rule.chars {
		return charsLen(text, n)
	}
	return n
}

func (b *bpeMerger) emit(out *output, text string, s piece, start int) {
	symbol := &b.symbols[s.symbol]
	if symbol.unknown {
		for i := range len(text) {
			if id := b.byteIDs[text[i]]; id != None {
				out.add(id, start+i+1)
			}
		}
	}
	if symbol.id != None {
		out.add(symbol.id, start+len(text))
	}
	before := int(symbol.size) - len(text) // length of a leading blank that is not in the text
	for _, token := range symbol.spread {
		out.add(token.id, start+max(0, int(token.end)-before))
	}
}

func (b *bpe) find(left, right int32) merge {
	if m, ok := b.merges[pairKey(left, right)]; ok {
		return m
	}
	return merge{rank: -1}
}

// mergeShort merges the best pair, leftmost first, until no pair can be merged.
func (b *bpeMerger) mergeShort() {
	b.found = b.found[:0]
	for i := 1; i < len(b.sequence); i++ {
		b.found = append(b.found, b.find(b.sequence[i-1], b.sequence[i]))
	}
	for {
		best := -1
		for i, m := range b.found {
			if m.rank >= 0 && (best < 0 || m.rank < b.found[best].rank) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		b.sequence[best] = b.found[best].symbol
		b.sequence = append(b.sequence[:best+1], b.sequence[best+2:]...)
		b.found = append(b.found[:best], b.found[best+1:]...)
		if best > 0 {
			b.found[best-1] = b.find(b.sequence[best-1], b.sequence[best])
		}
		if best < len(b.found) {
			b.found[best] = b.find(b.sequence[best], b.sequence[best+1])
		}
	}
}

// A link is a symbol in a doubly linked list over the positions of a word; its size is 0 once it is merged into its
// left neighbour.
type link struct {
	prev, next, size int32
}

func makeLinks(links []link, n int) []link {
	links = links[:0]
	for i := range n {
		links = append(links, link{int32(i - 1), int32(i + 1), 1})
	}
	if n > 0 {
		links[n-1].next = -1
	}
	return links
}

// join merges right into left.
func join(links []link, left, right int32) {
	links[left].size += links[right].size
	links[right].size = 0
	links[left].next = links[right].next
	if next := links[right].next; next >= 0 {
		links[next].prev = left
	}
}

// neighbours are two links that may be merged, with their total size.
type neighbours struct{ left, right, size int32 }

// areStale reports whether one of the links has been merged since.
func (n neighbours) areStale(links []link) bool {
	left, right := links[n.left].size, links[n.right].size
	return left == 0 || right == 0 || left+right != n.size
}

// A rankedPair is a possible merge.
type rankedPair struct {
	neighbours
	merge
}

func (p rankedPair) before(q rankedPair) bool {
	return p.rank < q.rank || p.rank == q.rank && p.left < q.left
}

// mergeLong is mergeShort in time O(n log n).
func (b *bpeMerger) mergeLong() {
	b.links = makeLinks(b.links, len(b.sequence))
	b.queue = b.queue[:0]
	offer := func(left, right int32) {
		if left < 0 || right < 0 {
			return
		}
		if m := b.find(b.sequence[left], b.sequence[right]); m.rank >= 0 {
			b.queue.push(rankedPair{neighbours{left, right, b.links[left].size + b.links[right].size}, m})
		}
	}
	for i := 1; i < len(b.sequence); i++ {
		offer(int32(i-1), int32(i))
	}
	for len(b.queue) > 0 {
		p := b.queue.pop()
		if p.areStale(b.links) {
			continue
		}
		join(b.links, p.left, p.right)
		b.sequence[p.left] = p.symbol
		offer(b.links[p.left].prev, p.left)
		offer(p.left, b.links[p.left].next)
	}
	kept := b.sequence[:0]
	for i, l := range b.links {
		if l.size > 0 {
			kept = append(kept, b.sequence[i])
		}
	}
	b.sequence = kept
}
