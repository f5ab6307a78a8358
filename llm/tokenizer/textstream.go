package tokenizer

import "sync"

// sizes limit the memory; they do not affect results.
type sizes struct {
	window     int // bytes of text per window
	longWord   int // longer words are merged in windows
	wordWindow int
	cache      int // number of cached words
}

var defaultSizes = sizes{window: 1 << 16, longWord: 1 << 16, wordWindow: 1 << 16, cache: 1 << 16}

// A textStream encodes text that arrives in chunks and has no special tokens. Ends of tokens are offsets in the
// normalized text.
type textStream struct {
	model  model
	sizes  sizes
	merger merger
	long   longWord
	cache  wordCache

	raw   []byte // not normalized yet
	text  string // normalized, but without tokens yet
	start int    // offset of text
	need  int    // minimum length of raw or chunk to continue
	open  bool   // text begins inside a word; long has the word's beginning
}

func newTextStream(m model, s sizes) *textStream {
	merger := m.newMerger()
	s.longWord = max(s.longWord, merger.longestWhole())
	return &textStream{model: m, sizes: s, merger: merger,
		long: longWord{merger: merger, size: s.wordWindow}}
}

// idleStreams are text streams for reuse: many texts are short, and a stream's cached words serve the next text.
// Streams that record ends are pooled separately.
type idleStreams struct{ withoutEnds, withEnds sync.Pool }

func (i *idleStreams) pool(wantEnds bool) *sync.Pool {
	if wantEnds {
		return &i.withEnds
	}
	return &i.withoutEnds
}

// take returns a stream for a text.
func (i *idleStreams) take(t *Tokenizer, wantEnds bool) *textStream {
	if s, ok := i.pool(wantEnds).Get().(*textStream); ok {
		return s
	}
	return newTextStream(t.model, t.sizes)
}

// give returns a stream whose text has ended.
func (i *idleStreams) give(s *textStream, wantEnds bool) { i.pool(wantEnds).Put(s) }

// write encodes a chunk and adds the tokens that are certain: all remaining ones if it is the last chunk, after
// which the stream is ready for a new text.
func (t *textStream) write(out *output, chunk string, last bool) {
	if len(t.raw) > 0 || !last && len(chunk) < t.need {
		t.raw = append(t.raw, chunk...)
		if !last && len(t.raw) < t.need {
			return
		}
		chunk = string(t.raw)
		t.raw = t.raw[:0]
	}
	text, n := t.model.normalize(chunk, last)
	t.raw = append(t.raw, chunk[n:]...)
	t.text += text
	t.words(out, last)
	if last {
		t.start, t.need = 0, 0
		return
	}
	if len(t.text) >= t.sizes.longWord {
		t.openWord(out)
	}
	// Text that waits for its end is examined again once it has doubled, so that the total time is linear.
	t.need = 0
	if len(t.text) >= t.sizes.window {
		t.need = len(t.text)
	}
}

// words encodes the words that are certain.
func (t *textStream) words(out *output, last bool) {
	settled := t.model.settled(t.text)
	done, stopped := 0, false
	t.model.split(t.text, func(word string) {
		if stopped = stopped || !last && done+len(word) >= settled; stopped {
			return
		}
		t.word(out, word, t.start+done)
		done += len(word)
	})
	t.text = t.text[done:]
	t.start += done
}

func (t *textStream) word(out *output, word string, start int) {
	if t.open {
		t.open = false
		t.long.write(out, word, true)
		return
	}
	if len(word) > t.sizes.longWord {
		t.long.start = start
		t.long.write(out, word, true)
		return
	}
	if t.cache.add(out, word, start) {
		return
	}
	first := len(out.ids)
	from := 0
	for _, s := range t.merger.word(word) {
		to := from + int(s.size)
		t.merger.emit(out, word[from:to], s, start+from)
		from = to
	}
	if len(word) <= cachedWord {
		t.cache.remember(out, word, start, first, t.sizes.cache)
	}
}

// openWord passes the certain part of the word at the start of text to long.
func (t *textStream) openWord(out *output) {
	n := t.model.inside(t.text)
	if n == 0 {
		return
	}
	if !t.open {
		t.open = true
		t.long.start = t.start
	}
	t.long.write(out, t.text[:n], false)
	t.text = t.text[n:]
	t.start += n
}
