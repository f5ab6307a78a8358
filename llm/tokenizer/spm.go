package tokenizer

import "strings"

// space is how a SentencePiece vocabulary writes a space, U+2581.
const space = "\u2581"

// spm merges neighbouring pieces, best score first, as long as the result is a token.
type spm struct {
	ids    map[string]ID
	scores []float32
	bytes  [256]ID // tokens of the bytes of a character that is not a token
	pairs  charPairs
	// maxSize is the size of the longest token, or of the longest character if that is longer.
	maxSize int
}

func newSPM(t *Tokenizer) *spm {
	s := &spm{ids: t.ids, scores: t.cfg.Scores}
	if len(s.scores) == 0 {
		s.scores = make([]float32, len(t.texts))
	}
	for i := range s.bytes {
		s.bytes[i] = t.cfg.Unknown
		for _, text := range []string{byteToken(byte(i)), string([]byte{byte(i)})} {
			if id, ok := t.ids[text]; ok {
				s.bytes[i] = id
				break
			}
		}
	}
	s.pairs.rare = map[uint64]struct{}{}
	s.maxSize = maxCharLen
	for _, text := range t.texts {
		s.pairs.add(text)
		s.maxSize = max(s.maxSize, len(text))
	}
	return s
}

// charPairs is the set of pairs of neighbouring characters inside tokens. No merge spans any other pair, so text may
// be cut there, and its parts merged and cached independently.
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

// nextChar returns the first character of text, with the length that its first byte announces.
func nextChar(text string) string {
	return text[:min(len(text), utf8Len(text[0]))]
}

func (s *spm) normalize(raw string, _ bool) (text string, n int) {
	return strings.ReplaceAll(raw, " ", space), len(raw)
}

func (s *spm) normalizedLen(raw string) (n, normalized int) {
	if raw[0] == ' ' {
		return 1, len(space)
	}
	return 1, 1
}

// split cuts text between neighbouring characters that are in no token.
func (s *spm) split(text string, yield func(word string)) {
	for text != "" {
		n := s.wordLen(text)
		yield(text[:n])
		text = text[n:]
	}
}

func (s *spm) wordLen(text string) int {
	char := nextChar(text)
	end := len(char)
	for end < len(text) {
		next := nextChar(text[end:])
		if !s.pairs.has(char, next) {
			break
		}
		char = next
		end += len(next)
	}
	return end
}

// settled keeps room for the character after a word.
func (s *spm) settled(text string) int { return len(text) - maxCharLen }

// inside excludes at least the last two characters.
func (s *spm) inside(text string) int {
	return charsLen(text, len(text)-2*maxCharLen)
}

// maxCharLen is the longest character by its first byte.
const maxCharLen = 4

// charsLen returns the length of the complete characters in text[:n].
func charsLen[T string | []byte](text T, n int) int {
	end := 0
	for end < n && end+utf8Len(text[end]) <= n {
		end += utf8Len(text[end])
	}
	return end
}

func (s *spm) newMerger() merger { return &spmMerger{spm: s} }

// An spmMerger has the buffers for merging one word.
type spmMerger struct {
	*spm
	starts []int32 // offset of each character in the word
	links  []link
	queue  queue[scoredPair]
	pieces []piece
}

// A scoredPair is a possible merge.
type scoredPair struct {
	neighbours
	score float32
}

func (p scoredPair) before(q scoredPair) bool {
	return p.score > q.score || p.score == q.score && p.left < q.left
}

func (s *spmMerger) word(word string) []piece { return s.merge(word) }

func (s *spmMerger) merge(text string) []piece {
	s.link(text)
	s.queue = s.queue[:0]
	offer := func(left, right int32) {
		if left < 0 || right < 0 {
			return
		}
		size := s.links[left].size + s.links[right].size
		from := s.starts[left]
		if id, ok := s.ids[text[from:from+size]]; ok {
			s.queue.push(scoredPair{neighbours{left, right, size}, s.scores[id]})
		}
	}
	for i := 1; i < len(s.links); i++ {
		offer(int32(i-1), int32(i))
	}
	for len(s.queue) > 0 {
		p := s.queue.pop()
		if p.areStale(s.links) {
			continue
		}
		join(s.links, p.left, p.right)
		offer(s.links[p.left].prev, p.left)
		offer(p.left, s.links[p.left].next)
	}
	s.pieces = s.pieces[:0]
	for _, l := range s.links {
		if l.size > 0 {
			s.pieces = append(s.pieces, piece{size: l.size})
		}
	}
	return s.pieces
}

// link makes a linked list of the characters of text.
func (s *spmMerger) link(text string) {
	s.starts = s.starts[:0]
	for from := 0; from < len(text); from += len(nextChar(text[from:])) {
		s.starts = append(s.starts, int32(from))
	}
	s.links = makeLinks(s.links, len(s.starts))
	for i := range s.links {
		end := int32(len(text))
		if i+1 < len(s.starts) {
			end = s.starts[i+1]
		}
		s.links[i].size = end - s.starts[i]
	}
}

func (s *spmMerger) longest() int { return s.maxSize }

func (s *spmMerger) longestWhole() int { return 0 }

func (s *spmMerger) wholeChars(text []byte, n int) int {
	if n >= len(text) {
		return len(text)
	}
	return charsLen(text, n)
}

// emit adds the token of a piece, or the tokens of its bytes.
func (s *spmMerger) emit(out *output, text string, _ piece, start int) {
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
