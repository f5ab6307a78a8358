package tokenizer

import (
	"errors"
	"io"
	"math"
)

// A stream encodes text in windows.
type stream struct {
	t     *Tokenizer
	o     EncodeOptions
	parse []byteRange // ranges in which control tokens are matched
	whole string      // the text, if ends are wanted
	out   output

	offset int // of the next window in the whole text

	text         *textStream
	afterSpecial bool
	inText       bool
	textFrom     int // start of the text since the last special token
	textFirst    int // index in out of its first token
}

func (t *Tokenizer) newStream(o EncodeOptions) *stream {
	s := &stream{t: t, o: o, afterSpecial: true}
	if o.ParseSpecial {
		s.parse = []byteRange{{0, math.MaxInt}}
	}
	return s
}

// encode encodes a whole text.
func (s *stream) encode(text string) {
	s.text = s.t.idle.take(s.t, s.out.wantEnds)
	s.begin()
	size := s.t.sizes.window
	for s.offset < len(text) {
		window := text[s.offset:min(len(text), s.offset+size)]
		n := s.write(window, s.offset+len(window) == len(text))
		size = s.nextSize(size, n)
	}
	s.end()
	s.t.idle.give(s.text, s.out.wantEnds)
}

// read encodes the text of a reader and calls yield with the tokens of each
// window.
func (s *stream) read(r io.Reader, yield func([]ID, error) bool) {
	if r == nil {
		yield(nil, errors.New("the reader is nil"))
		return
	}
	s.text = newTextStream(s.t.model, s.t.sizes)
	s.begin()
	reader := &progressReader{r: r}
	size := s.t.sizes.window
	var buf []byte
	for last := false; !last; {
		have := len(buf)
		buf = append(buf, make([]byte, size-have)...)
		n, err := io.ReadFull(reader, buf[have:])
		buf = buf[:have+n]
		last = err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			yield(nil, err)
			return
		}
		n = s.write(string(buf), last)
		if last {
			s.end()
		}
		if len(s.out.ids) > 0 && !yield(s.out.ids, nil) {
			return
		}
		s.out.ids = s.out.ids[:0]
		buf = append(buf[:0], buf[n:]...)
		size = max(s.nextSize(size, n), 2*len(buf))
	}
}

// A progressReader returns an error if the reader repeatedly returns neither bytes nor an error, as package bufio
// does.
type progressReader struct{ r io.Reader }

func (p *progressReader) Read(b []byte) (int, error) {
	const many = 100
	for range many {
		if n, err := p.r.Read(b); n != 0 || err != nil || len(b) == 0 {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// nextSize returns the size of the next window, after n bytes of a window were encoded: twice the size if
// overlapping special tokens left few places to cut.
func (s *stream) nextSize(size, n int) int {
	if 2*n <= size {
		return 2 * size
	}
	return s.t.sizes.window
}

func (s *stream) begin() {
	if s.o.AddSpecial && s.t.cfg.AddBOS {
		s.out.add(s.t.cfg.BOS, 0)
	}
}

func (s *stream) end() {
	if id := s.t.ending(); s.o.AddSpecial && id != None {
		s.out.add(id, s.offset)
	}
}

// write encodes a window and returns the number of bytes that it encoded; the next window begins there.
func (s *stream) write(window string, last bool) int {
	m := s.t.newMatcher(window, s.parse, s.offset)
	to := len(window)
	if !last {
		to = m.boundary()
	}
	for _, f := range m.fragments(to) {
		if f.id == None {
			s.plain(window[f.from:f.to], s.offset+f.from, last || f.to < to)
			continue
		}
		s.endText(s.offset + f.from)
		s.out.add(f.id, s.offset+f.to)
		s.afterSpecial = true
	}
	s.offset += to
	if last {
		s.endText(s.offset)
	}
	return to
}

// plain encodes text without special tokens; final means that a special token or the end follows.
func (s *stream) plain(text string, from int, final bool) {
	if !s.inText {
		s.inText = true
		s.textFrom, s.textFirst = from, len(s.out.ids)
		s.text.write(&s.out, s.prefix(), false)
	}
	s.text.write(&s.out, text, final)
	if final {
		s.closeText(from + len(text))
	}
}

// prefix returns the text to insert in front.
func (s *stream) prefix() string {
	if s.afterSpecial && s.t.cfg.AddSpacePrefix && s.t.cfg.Model == ModelSPM {
		return " "
	}
	return ""
}

func (s *stream) endText(at int) {
	if s.inText {
		s.text.write(&s.out, "", true)
		s.closeText(at)
	}
}

// closeText ends the open text, and converts its tokens' ends from normalized to original offsets.
func (s *stream) closeText(to int) {
	at := offsets{model: s.t.model, pos: s.textFrom}
	if prefix := s.prefix(); prefix != "" {
		_, at.ahead = s.t.model.normalizedLen(prefix)
	}
	s.inText, s.afterSpecial = false, false
	if !s.out.wantEnds {
		return
	}
	at.raw = s.whole[s.textFrom:to]
	for i, end := range s.out.ends[s.textFirst:] {
		s.out.ends[s.textFirst+i] = at.of(end)
	}
}
