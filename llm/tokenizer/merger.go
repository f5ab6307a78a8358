package tokenizer

import "slices"

// merger turns words into pieces. It has buffers, and belongs to one
// goroutine.
type merger interface {
	// word gives the pieces of a word; they are valid until the next call.
	word(word string) []piece
	// merge does the same for a part of a word. Of all neighbouring pairs that can be merged, it
	// merges the best one first, the leftmost of equal ones, until no pair is left.
	merge(text string) []piece
	// emit adds the tokens of a piece, whose text begins at start.
	emit(out *output, text string, s piece, start int)
	// wholeChars is the length of the whole characters in text[:n] for which merge
	// starts, as text has them from its start.
	wholeChars(text []byte, n int) int
	// longest is the size of the longest piece that there can be.
	longest() int
	// longestWhole is the size of the longest word that is not merged.
	longestWhole() int
}

// piece is a part of a word that is not merged further.
type piece struct {
	size   int32 // in bytes
	symbol int32 // of a BPE model
}

// longWord merges a word in windows, with memory for one of them.
//
// Merging depends on nothing but the pairs that there are, so as long as none is
// merged across some place, what is left and right of it is merged as it would
// be on its own. That makes windows exact for any vocabulary:
//
//  1. Where the pieces of a text have a boundary, both sides have the pieces
//     that they have on their own.
//  2. Let X end with the piece x, and Y begin with y. If merging xy leaves a boundary between x
//     and y, merging XY leaves it, and XY has the pieces of X and then of Y. For suppose that XY is
//     merged across, the first time at some step. Until then x and y were merged as in xy, in the
//     same order, and the pair across is better than all others, also those within x and y; so it
//     would be merged in xy as well. (This test of a pair is known from github.com/github/rust-gems,
//     crate bpe.)
//  3. Let no piece be longer than L. However a text of length n goes on, the
//     last boundary up to n is one of the places from n-L+1 to n, and up to it
//     the whole has the pieces that the text up to there has. A boundary that
//     the text has for each of these places as its end is one of the whole.
//
// So the end of a window is merged up to each of these places, 2 says where that
// leaves the pieces of the window as they are, and by 3 these are certain. If
// none are, the window grows, in the worst case to the whole word.
type longWord struct {
	merger
	size int // of a window at first

	buf    []byte // what has no tokens yet
	start  int    // offset of buf in the text
	window int
}

// write takes a part of the word, and adds the tokens that are certain: all remaining ones if it is
// the last part.
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

// lastBoundary is the last boundary of pieces that is not beyond limit, and
// how many pieces are before it.
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

// join returns a place up to which buf[:end] has the pieces of the window, 0
// if there is none behind from. Those known of the window begin with the one
// before from.
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

// apart reports whether two pieces that meet at an offset of buf stay apart.
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
