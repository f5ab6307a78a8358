package tokenizer

import "sync"

// sizes are how much is held in memory: results do not depend on them.
type sizes struct {
	window     int // of text
	longWord   int // longer words are merged in windows
	wordWindow int
	cache      int // words that are remembered
}

var defaultSizes = sizes{window: 1 << 16, longWord: 1 << 16, wordWindow: 1 << 16, cache: 1 << 16}

// textStream encodes text without special tokens that comes in chunks. Ends of
// tokens are offsets in the normalized text.
type textStream struct {
	model  model
	sizes  sizes
	merger merger
	long   longWord
	cache  wordCache

	raw   []byte // not normalized yet
	text  string // normalized, but without tokens yet
	start int    // offset of text
	need  int    // bytes of raw that are waited for
	open  bool   // text begins inside a word; long has what comes before
}

func newTextStream(m model, s sizes) *textStream {
	merger := m.newMerger()
	s.longWord = max(s.longWord, merger.longestWhole())
	return &textStream{model: m, sizes: s, merger: merger,
		long: longWord{merger: merger, size: s.wordWindow}}
}

// idleStreams are text streams between two texts: many texts are short, and what one
// remembers of words serves the next. Those that remember ends are apart from others.
type idleStreams struct{ withoutEnds, withEnds sync.Pool }

func (i *idleStreams) pool(wantEnds bool) *sync.Pool {
	if wantEnds {
		return &i.withEnds
	}
	return &i.withoutEnds
}

// take gives a stream to a text.
func (i *idleStreams) take(t *Tokenizer, wantEnds bool) *textStream {
	if s, ok := i.pool(wantEnds).Get().(*textStream); ok {
		return s
	}
	return newTextStream(t.model, t.sizes)
}

// give takes back a stream whose text has ended.
func (i *idleStreams) give(s *textStream, wantEnds bool) { i.pool(wantEnds).Put(s) }

// write takes a chunk and adds the tokens that are certain: all remaining ones if it is the last
// chunk. The stream is then as new.
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
	// Text that waits for its end is looked at again when it has doubled, so
	// that the time is linear.
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

// openWord takes the word that text begins with as far as it is certain.
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
