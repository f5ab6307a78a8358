package tokenizer

import "slices"

// A merger turns words into pieces. It has buffers, and is used by one goroutine.
type merger interface {
	// word returns the pieces of a word; they are valid until the next call.
	word(word string) []piece
	// merge does the same for a part of a word. It merges the best pair of neighbours, the leftmost of equal ones,
	// until no pair can be merged.
	merge(text string) []piece
	// emit adds the tokens of a piece, whose text begins at start.
	emit(out *output, text string, s piece, start int)
	// wholeChars returns the length of the complete characters in text[:n], or n if merge starts from bytes; text
	// starts at a character.
	wholeChars(text []byte, n int) int
	// longest returns the size of the longest possible piece.
	longest() int
	// longestWhole returns the size of the longest word that is a piece without merging.
	longestWhole() int
}

// A piece is a part of a word that is not merged further.
type piece struct {
	size   int32 // in bytes
	symbol int32 // a token, or a number of the model's own
}

// noToken is the symbol of a piece without a token, such as a separator.
const noToken = -1

// longWord merges a word in windows, with memory for one of them.
//
// Merging depends only on the pairs. As long as no merge crosses an offset, the text left and right of it is merged
// as it would be on its own. So windows are exact for any vocabulary:
//
//  1. If an offset is a boundary of a text's pieces, both sides have the pieces
//     that they have on their own.
//  2. Let X end with the piece x, and Y begin with y. If merging xy leaves a boundary between x
//     and y, merging XY leaves it, too, and XY has the pieces of X followed by the pieces of Y. For
//     suppose that some step of merging XY is the first to cross the boundary. Until then x and y
//     were merged as in xy, in the same order, and the crossing pair is better than all others,
//     also than those within x and y; so it would be merged in xy as well. (This test of a pair is
//     known from github.com/github/rust-gems, crate bpe.)
//  3. Let no piece be longer than L. However a text of length n continues, the last boundary of
//     the whole up to n is at one of the offsets from n-L+1 to n, and up to it the whole has the
//     pieces that the text up to there has on its own. An offset that is a boundary of each of
//     these L prefixes is a boundary of the whole.
//
// So step merges the end of a window up to each of these offsets; 2 finds the offset up to which the window's pieces
// stay, and by 3 these are certain. If none are, the window grows, in the worst case to the whole word.
type longWord struct {
	merger
	size int // initial size of a window

	buf    []byte // bytes without tokens yet
	start  int    // offset of buf in the text
	window int
}

// write appends a part of the word, and adds the tokens that are certain: all remaining ones if it is the last part.
func (w *longWord) write(out *output, text string, last bool) {
	w.buf = append(w.buf, text...)
	w.window = max(w.window, w.size)
	for len(w.buf) > w.window {
		w.step(out)
	}
	if last {
		w.emitPieces(out, w.merge(string(w.buf)))
		w.buf, w.window = w.buf[:0], w.size
	}
}

// step merges a window and adds the tokens that are certain, whatever follows.
func (w *longWord) step(out *output) {
	n := w.wholeChars(w.buf, w.window)
	known := slices.Clone(w.merge(string(w.buf[:n])))
	longest := w.longest()
	from, i := lastBoundary(known, n-longest-w.window/256)
	if from == 0 {
		w.window *= 2
		return
	}
	certain := n
	for end := max(from, n-longest+1); end < n && certain > 0; end++ {
		if w.wholeChars(w.buf[from:], end-from) == end-from {
			certain = min(certain, w.join(known[i-1:], from, end))
		}
	}
	if certain == 0 {
		w.window *= 2
		return
	}
	_, i = lastBoundary(known, certain)
	w.emitPieces(out, known[:i])
	w.buf = w.buf[certain:]
	w.window = max(w.size, w.window/2)
}

// lastBoundary returns the last boundary of pieces up to limit, and the number of pieces before it.
func lastBoundary(pieces []piece, limit int) (at, n int) {
	for _, s := range pieces {
		if at+int(s.size) > limit {
			break
		}
		at += int(s.size)
		n++
	}
	return at, n
}

// join returns an offset after from up to which buf[:end] has the window's pieces, or 0 if there is none. known are
// the window's pieces, beginning with the one before from.
func (w *longWord) join(known []piece, from, end int) int {
	next := slices.Clone(w.merge(string(w.buf[from:end])))
	left, right, before := from, from, known[0]
	known = known[1:]
	for right < end {
		if left == right && w.apart(left, before, next[0]) {
			return left
		}
		if left > right {
			right += int(next[0].size)
			next = next[1:]
			continue
		}
		if len(known) == 0 {
			return 0
		}
		before, known = known[0], known[1:]
		left += int(before.size)
	}
	if left == end {
		return end
	}
	return 0
}

// apart reports whether two pieces that meet at an offset of buf are not merged.
func (w *longWord) apart(at int, x, y piece) bool {
	pair := w.buf[at-int(x.size) : at+int(y.size)]
	boundary, _ := lastBoundary(w.merge(string(pair)), int(x.size))
	return boundary == int(x.size)
}

func (w *longWord) emitPieces(out *output, pieces []piece) {
	from := 0
	for _, s := range pieces {
		to := from + int(s.size)
		w.emit(out, string(w.buf[from:to]), s, w.start+from)
		from = to
	}
	w.start += from
}
