package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// unigram cuts words into the tokens with the largest sum of scores, as PLaMo 3 does.
type unigram struct {
	wholeWords
	prefixes prefixMap
	scores   []int64 // by token
	bytes    [256]ID
	pairs    charPairs
}

const (
	scoreUnit    = 1e4 // scores are integers in units of 1/scoreUnit
	lowestScore  = -20000000
	unknownScore = -10000000 // of a character that is spelled in bytes
)

func newUnigram(t *Tokenizer) (*unigram, error) {
	u := &unigram{prefixes: prefixMap{}, scores: make([]int64, len(t.texts)), pairs: charPairs{rare: map[uint64]struct{}{}}}
	for i := range u.bytes {
		id, ok := t.ids[byteToken(byte(i))]
		if !ok || t.attrs[id]&attrByte == 0 {
			return nil, fmt.Errorf("tokenizer: there is no byte token %s, which a vocabulary of %s needs", byteToken(byte(i)), ModelPLaMo3)
		}
		u.bytes[i] = id
	}
	for id, text := range t.texts {
		var score float64
		if len(t.cfg.Scores) > 0 {
			score = math.Round(float64(t.cfg.Scores[id]) * scoreUnit)
		}
		if t.attrs[id]&attrByte != 0 || score <= lowestScore || score > math.MaxInt32 {
			continue
		}
		u.scores[id] = int64(score)
		u.prefixes.add(ID(id), text)
		u.pairs.add(text)
	}
	return u, nil
}

func (u *unigram) normalize(raw string, last bool) (text string, n int) {
	return normalizeUTF8(raw, last)
}

func (u *unigram) normalizedLen(raw string) (n, normalized int) { return normalizedUTF8(raw) }

// split cuts text around marks and runs, and between neighbouring characters that are in no token.
func (u *unigram) split(text string, yield func(word string)) {
	for text != "" {
		n := markLen(text)
		if n == 0 {
			n = runLen(text)
		}
		if n == 0 {
			n = u.plainLen(text)
		}
		yield(text[:n])
		text = text[n:]
	}
}

// plainLen returns the length of the first word of text, up to a mark or a run.
func (u *unigram) plainLen(text string) int {
	char := nextChar(text)
	end := len(char)
	for end < len(text) {
		rest := text[end:]
		next := nextChar(rest)
		if !u.pairs.has(char, next) || markLen(rest) > 0 || runLen(rest) > 0 {
			break
		}
		char = next
		end += len(next)
	}
	return end
}

// boundary separates tokens, and is in no token.
const boundary = "\uEE00"

// markLen returns the length of a special token at the start of text, <|plamo:NAME|> with up to 64 characters; NAME
// may contain runs.
func markLen(text string) int {
	const prefix, suffix, longest = "<|plamo:", "|>", 64
	name, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return 0
	}
	n := 0
	for range longest {
		r, size := decodeRune(name[n:])
		if size == 0 || r == '|' || r >= 0x1C && r <= 0x1F || classOf(r) == classSpace {
			break
		}
		n += size
	}
	if !strings.HasPrefix(name[n:], suffix) {
		return 0
	}
	return len(prefix) + n + len(suffix)
}

// runLen returns the length of a run of one character at the start of text, at least four characters or two blanks;
// 0 if there is none.
func runLen(text string) int {
	char := nextChar(text)
	if char == "\n" || char == boundary {
		return 0
	}
	n, count := 0, 0
	for strings.HasPrefix(text[n:], char) && (n == 0 || markLen(text[n:]) == 0) {
		n += len(char)
		count++
	}
	if count >= 4 || count >= 2 && char == " " {
		return n
	}
	return 0
}

// farthest is the largest number of bytes that marks look ahead.
const farthest = 8 + 64*maxCharLen + 2

func (u *unigram) settled(text string) int {
	end := max(0, len(text)-farthest)
	for end > 0 && end < len(text) && text[end]&0xC0 == 0x80 {
		end--
	}
	if end == len(text) || end == 0 {
		return end
	}
	// The run may continue.
	for char := nextChar(text[end:]); strings.HasSuffix(text[:end], char); {
		end -= len(char)
	}
	return end
}

func (u *unigram) newMerger() merger { return &unigramMerger{unigram: u} }

// A unigramMerger has the buffers for one word.
type unigramMerger struct {
	*unigram
	best   []bestPiece // by offset of the text: the best pieces from there to the end
	pieces []piece
}

// A bestPiece is the first piece of the best segmentation of the rest of a text.
type bestPiece struct {
	piece
	score int64 // of the whole segmentation
}

// unknownToken is the symbol of a character that is spelled in bytes.
const unknownToken = -2

func (u *unigramMerger) word(word string) []piece {
	u.pieces = u.pieces[:0]
	mark := markLen(word)
	for word != "" {
		n := runLen(word)
		if n == 0 && mark > 0 { // cut a mark at the first run in it
			for n < len(word) && runLen(word[n:]) == 0 {
				n += len(nextChar(word[n:]))
			}
		} else if n == 0 {
			n = len(word)
		}
		u.cut(word[:n])
		word = word[n:]
	}
	return u.pieces
}

func (u *unigramMerger) merge(text string) []piece {
	u.pieces = u.pieces[:0]
	u.cut(text)
	return u.pieces
}

// cut adds the pieces of a text; boundaries in it are pieces without a token.
func (u *unigramMerger) cut(text string) {
	for {
		part, rest, found := strings.Cut(text, boundary)
		u.cutPart(part)
		if !found {
			return
		}
		u.pieces = append(u.pieces, piece{int32(len(boundary)), noToken})
		text = rest
	}
}

// cutPart finds the best segmentation from the end on; the longer piece wins a tie.
func (u *unigramMerger) cutPart(text string) {
	u.best = slices.Grow(u.best[:0], len(text)+1)[:len(text)+1]
	u.best[len(text)] = bestPiece{}
	for from := len(text) - 1; from >= 0; from-- {
		if text[from]&0xC0 == 0x80 {
			continue
		}
		to := from + len(nextChar(text[from:]))
		best := bestPiece{piece{int32(to - from), unknownToken}, u.best[to].score + unknownScore}
		for size, id := range u.prefixes.tokensOf(text[from:]) {
			if score := u.best[from+size].score + u.scores[id]; score >= best.score {
				best = bestPiece{piece{int32(size), id}, score}
			}
		}
		u.best[from] = best
	}
	for at := 0; at < len(text); at += int(u.best[at].size) {
		u.pieces = append(u.pieces, u.best[at].piece)
	}
}

func (u *unigramMerger) emit(out *output, text string, p piece, start int) {
	if p.symbol != unknownToken {
		u.wholeWords.emit(out, text, p, start)
		return
	}
	for i := range len(text) {
		out.add(u.bytes[text[i]], start+i+1)
	}
}
