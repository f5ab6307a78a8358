package tokenizer

import (
	"fmt"
	"strings"
)

// space is how a SentencePiece vocabulary writes a space, U+2581.
const space = "\u2581"

// spm merges neighbouring pieces, best score first, as long as the result is
// itself a piece.
type spm struct {
	ids    map[string]ID
	scores []float32
	bytes  [256]ID // what a byte of a character without a piece becomes
	pairs  charPairs
}

func newSPM(t *Tokenizer) *spm {
	s := &spm{ids: t.ids, scores: t.cfg.Scores}
	if len(s.scores) == 0 {
		s.scores = make([]float32, len(t.texts))
	}
	for i := range s.bytes {
		s.bytes[i] = t.cfg.Unknown
		for _, text := range []string{fmt.Sprintf("<0x%02X>", i), string([]byte{byte(i)})} {
			if id, ok := t.ids[text]; ok {
				s.bytes[i] = id
				break
			}
		}
	}
	s.pairs.rare = map[uint64]struct{}{}
	for _, text := range t.texts {
		s.pairs.add(text)
	}
	return s
}

// charPairs has the pairs of neighbouring characters that occur inside tokens.
// No merge can span another pair, so text may be cut there and its parts be
// merged, and remembered, on their own.
type charPairs struct {
	ascii [128][2]uint64 // bit sets
	rare  map[uint64]struct{}
}

func pairOf(a, b string) uint64 {
	var key uint64
	for _, c := range []string{a, b} {
		key <<= 32
		for i := range len(c) {
			key |= uint64(c[i]) << (8 * i)
		}
	}
	return key
}

func (p *charPairs) add(text string) {
	char := nextChar(text)
	for rest := text[len(char):]; rest != ""; {
		next := nextChar(rest)
		if char[0] < 128 && next[0] < 128 {
			p.ascii[char[0]][next[0]>>6] |= 1 << (next[0] & 63)
		} else {
			p.rare[pairOf(char, next)] = struct{}{}
		}
		char, rest = next, rest[len(next):]
	}
}

func (p *charPairs) has(a, b string) bool {
	if a[0] < 128 && b[0] < 128 {
		return p.ascii[a[0]][b[0]>>6]>>(b[0]&63)&1 != 0
	}
	_, ok := p.rare[pairOf(a, b)]
	return ok
}

// nextChar is the first character of text, by the length that its first byte
// announces.
func nextChar(text string) string {
	return text[:min(len(text), utf8Len(text[0]))]
}

func (s *spm) normalizedLen(text string) (raw, normalized int) {
	if text[0] == ' ' {
		return 1, len(space)
	}
	return 1, 1
}

func (s *spm) encode(out *output, text string) {
	text = strings.ReplaceAll(text, " ", space)
	seen := map[string]span{}
	var work spmWork
	start := 0
	for start < len(text) {
		n := s.cut(text[start:], &work)
		part := text[start : start+n]
		if at, ok := seen[part]; ok {
			out.repeat(at, start)
		} else {
			from := len(out.ids)
			s.merge(out, part, start, &work)
			if n <= cachedWord {
				seen[part] = span{from, len(out.ids), start}
			}
		}
		start += n
	}
}

// cut returns the length of the first part of text that merges cannot leave
// and lists the offsets of its characters.
func (s *spm) cut(text string, w *spmWork) int {
	w.starts = append(w.starts[:0], 0)
	char := nextChar(text)
	end := len(char)
	for end < len(text) {
		next := nextChar(text[end:])
		if !s.pairs.has(char, next) {
			break
		}
		w.starts = append(w.starts, int32(end))
		char = next
		end += len(next)
	}
	return end
}

// spmWork holds the buffers of one encode call.
type spmWork struct {
	starts []int32 // offset of each character in the part
	links  []link
	queue  queue[scoredPair]
}

// scoredPair is a possible merge; it is stale when its parts have changed.
type scoredPair struct {
	left, right, size int32
	score             float32
}

func (p scoredPair) before(q scoredPair) bool {
	return p.score > q.score || p.score == q.score && p.left < q.left
}

// merge appends the tokens of a part that begins at start in the text.
func (s *spm) merge(out *output, part string, start int, w *spmWork) {
	w.links = makeLinks(w.links, len(w.starts))
	for i := range w.links {
		w.links[i].size = w.end(i, len(part)) - w.starts[i]
	}
	w.queue = w.queue[:0]
	offer := func(left, right int32) {
		if left < 0 || right < 0 {
			return
		}
		size := w.links[left].size + w.links[right].size
		from := w.starts[left]
		if id, ok := s.ids[part[from:from+size]]; ok {
			w.queue.push(scoredPair{left, right, size, s.scores[id]})
		}
	}
	for i := 1; i < len(w.links); i++ {
		offer(int32(i-1), int32(i))
	}
	for len(w.queue) > 0 {
		p := w.queue.pop()
		left, right := w.links[p.left].size, w.links[p.right].size
		if left == 0 || right == 0 || left+right != p.size {
			continue
		}
		join(w.links, p.left, p.right)
		offer(w.links[p.left].prev, p.left)
		offer(p.left, w.links[p.left].next)
	}
	for i, l := range w.links {
		if l.size > 0 {
			from := int(w.starts[i])
			s.piece(out, part[from:from+int(l.size)], start+from)
		}
	}
}

func (w *spmWork) end(i, length int) int32 {
	if i+1 < len(w.starts) {
		return w.starts[i+1]
	}
	return int32(length)
}

// piece appends the token of a text that begins at start, or those of its
// bytes.
func (s *spm) piece(out *output, text string, start int) {
	if id, ok := s.ids[text]; ok {
		out.add(id, start+len(text))
		return
	}
	for i := range len(text) {
		if id := s.bytes[text[i]]; id != None {
			out.add(id, start+i+1)
		}
	}
}
