package tokenizer

import "unicode/utf8"

// bpe merges the bytes of a word by rank. Symbols are numbers for the texts
// that bytes and merges can form, whether they are tokens or not.
type bpe struct {
	split        splitter
	ignoreMerges bool
	whole        map[string]ID // token by its bytes
	bytes        [256]int32    // symbol of each byte
	merges       map[uint64]merge
	symbols      []symbol
}

// symbol is a text that merges can form.
type symbol struct {
	size   int32 // in bytes of the word
	id     ID    // its token, None if it is none
	spread []symbolToken
}

// symbolToken is one of the tokens that a symbol without a token of its own
// becomes.
type symbolToken struct {
	id  ID
	end int32 // offset in the symbol
}

type merge struct {
	rank   int32
	symbol int32 // the merged pair
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

func newBPE(t *Tokenizer, rule preRule) *bpe {
	b := &bpe{
		split:        rule.split,
		ignoreMerges: rule.ignoreMerges,
		whole:        make(map[string]ID, len(t.texts)),
		merges:       make(map[uint64]merge, len(t.cfg.Merges)),
	}
	for id, text := range t.texts {
		if raw, ok := decodeBytes(text); ok {
			b.whole[raw] = ID(id)
		}
	}
	symbols := make(map[string]int32, 256+2*len(t.cfg.Merges))
	intern := func(text string) int32 {
		s, ok := symbols[text]
		if !ok {
			s = int32(len(b.symbols))
			symbols[text] = s
			b.symbols = append(b.symbols, newSymbol(t, text))
		}
		return s
	}
	for i := range b.bytes {
		b.bytes[i] = intern(string(byteRunes[i]))
	}
	for rank, m := range t.cfg.Merges {
		left, right, _ := splitMerge(m)
		key := pairKey(intern(left), intern(right))
		if _, ok := b.merges[key]; !ok {
			b.merges[key] = merge{int32(rank), intern(left + right)}
		}
	}
	return b
}

// newSymbol finds the tokens of a text in the byte-level alphabet. A text that
// is no token becomes those of its bytes that are tokens as they stand.
func newSymbol(t *Tokenizer, text string) symbol {
	s := symbol{size: int32(utf8.RuneCountInString(text)), id: None}
	if id, ok := t.ids[text]; ok {
		s.id = id
		return s
	}
	for i := range len(text) {
		if id, ok := t.ids[text[i:i+1]]; ok {
			end := utf8.RuneCountInString(text[i+1:])
			s.spread = append(s.spread, symbolToken{id, s.size - int32(end)})
		}
	}
	return s
}

// Words up to this many bytes are merged by looking over all pairs each time,
// longer ones with a queue.
const shortWord = 32

// Words up to this many bytes are remembered while one text is encoded.
const cachedWord = 48

// A span says where in the output a word was encoded before, and where it
// began in the text.
type span struct{ from, to, start int }

// repeat appends the tokens of s for the same word that begins at start.
func (o *output) repeat(s span, start int) {
	o.ids = append(o.ids, o.ids[s.from:s.to]...)
	if o.wantEnds {
		for _, end := range o.ends[s.from:s.to] {
			o.ends = append(o.ends, end-s.start+start)
		}
	}
}

func (b *bpe) normalizedLen(text string) (raw, normalized int) {
	r, n := decodeRune(text)
	if r == utf8.RuneError {
		return n, len(string(utf8.RuneError))
	}
	return n, n
}

func (b *bpe) encode(out *output, text string) {
	seen := map[string]span{}
	var work bpeWork
	start := 0
	b.split(sanitize(text), func(word string) {
		if s, ok := seen[word]; ok {
			out.repeat(s, start)
		} else {
			from := len(out.ids)
			b.word(out, word, start, &work)
			if len(word) <= cachedWord {
				seen[word] = span{from, len(out.ids), start}
			}
		}
		start += len(word)
	})
}

// word appends the tokens of a word that begins at start in the text.
func (b *bpe) word(out *output, word string, start int, work *bpeWork) {
	if b.ignoreMerges {
		if id, ok := b.whole[word]; ok {
			out.add(id, start+len(word))
			return
		}
	}
	work.symbols = work.symbols[:0]
	for i := range len(word) {
		work.symbols = append(work.symbols, b.bytes[word[i]])
	}
	if len(word) <= shortWord {
		b.mergeShort(work)
	} else {
		b.mergeLong(work)
	}
	for _, n := range work.symbols {
		s := &b.symbols[n]
		if s.id != None {
			out.add(s.id, start+int(s.size))
		}
		for _, token := range s.spread {
			out.add(token.id, start+int(token.end))
		}
		start += int(s.size)
	}
}

// bpeWork holds the buffers of one encode call.
type bpeWork struct {
	symbols []int32
	found   []merge // merge of each symbol with the next, rank -1 for none
	links   []link
	queue   queue[rankedPair]
}

func (b *bpe) find(left, right int32) merge {
	if m, ok := b.merges[pairKey(left, right)]; ok {
		return m
	}
	return merge{rank: -1}
}

// mergeShort replaces the best pair, leftmost first, until there is none.
func (b *bpe) mergeShort(w *bpeWork) {
	w.found = w.found[:0]
	for i := 1; i < len(w.symbols); i++ {
		w.found = append(w.found, b.find(w.symbols[i-1], w.symbols[i]))
	}
	for {
		best := -1
		for i, m := range w.found {
			if m.rank >= 0 && (best < 0 || m.rank < w.found[best].rank) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		w.symbols[best] = w.found[best].symbol
		w.symbols = append(w.symbols[:best+1], w.symbols[best+2:]...)
		w.found = append(w.found[:best], w.found[best+1:]...)
		if best > 0 {
			w.found[best-1] = b.find(w.symbols[best-1], w.symbols[best])
		}
		if best < len(w.found) {
			w.found[best] = b.find(w.symbols[best], w.symbols[best+1])
		}
	}
}

// link is a symbol in a doubly linked list over the positions of a word; a
// size of 0 marks one that was merged into its left neighbour.
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

// rankedPair is a possible merge; it is stale when its parts have changed.
type rankedPair struct {
	left, right, size int32
	merge
}

func (p rankedPair) before(q rankedPair) bool {
	return p.rank < q.rank || p.rank == q.rank && p.left < q.left
}

// mergeLong does the same as mergeShort in time n·log n.
func (b *bpe) mergeLong(w *bpeWork) {
	w.links = makeLinks(w.links, len(w.symbols))
	w.queue = w.queue[:0]
	offer := func(left, right int32) {
		if left < 0 || right < 0 {
			return
		}
		if m := b.find(w.symbols[left], w.symbols[right]); m.rank >= 0 {
			w.queue.push(rankedPair{left, right, w.links[left].size + w.links[right].size, m})
		}
	}
	for i := 1; i < len(w.symbols); i++ {
		offer(int32(i-1), int32(i))
	}
	for len(w.queue) > 0 {
		p := w.queue.pop()
		left, right := w.links[p.left].size, w.links[p.right].size
		if left == 0 || right == 0 || left+right != p.size {
			continue
		}
		join(w.links, p.left, p.right)
		w.symbols[p.left] = p.symbol
		offer(w.links[p.left].prev, p.left)
		offer(p.left, w.links[p.left].next)
	}
	kept := w.symbols[:0]
	for i, l := range w.links {
		if l.size > 0 {
			kept = append(kept, w.symbols[i])
		}
	}
	w.symbols = kept
}
