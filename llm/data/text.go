package data

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/goggml/ggml/llm/tokenizer"
)

// TextOptions are the settings for dividing text into samples.
type TextOptions struct {
	Length int // maximum number of predicted tokens per sample
	// SampleStart divides the text into documents. A document begins at each occurrence; the text before
	// the first is omitted. A document starts a new sample; one of more than Length tokens becomes several
	// samples. Without SampleStart the whole text is one document.
	SampleStart        string
	IncludeSampleStart bool // keep SampleStart in the samples
	// Overlapping extends a sample that is too short with the text of the next documents.
	Overlapping bool
	// FillWithNext extends a sample that is too short with the next samples, including their BOS and EOS.
	FillWithNext bool
	SeparateBOS  bool // add BOS before each document that does not begin with it
	SeparateEOS  bool // add EOS after each document
	// RandomOffsets moves the beginning of each sample by a random number of tokens, less than Length and
	// than the remaining document, so that samples begin anywhere. The offsets depend only on Seed.
	RandomOffsets bool
	Seed          uint64
}

// FromText tokenizes text into samples in memory.
func FromText(t *tokenizer.Tokenizer, text string, o TextOptions) (*Dataset, error) {
	var samples []Sample
	for s, err := range TextSamples(t, strings.NewReader(text), o) {
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	return New(o.Length, samples), nil
}

// TextSamples tokenizes the text of r into samples, for [Prepare]. It needs some megabytes of memory,
// however long the text is. It yields an error of r, or an error if there are no samples.
func TextSamples(t *tokenizer.Tokenizer, r io.Reader, o TextOptions) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		files, _ := r.(*textFiles)
		documents := documentReader{text: r, files: files, marker: []byte(o.SampleStart), keep: o.IncludeSampleStart, size: readSize}
		s := textSampler{t: t, o: o, yield: yield, random: rand.New(rand.NewPCG(o.Seed, 0))}
		if err := s.read(&documents); err != nil && err != errStopped {
			yield(Sample{}, err)
		}
	}
}

// A textSampler makes samples from the tokens of a text as they arrive.
type textSampler struct {
	t      *tokenizer.Tokenizer
	o      TextOptions
	random *rand.Rand
	yield  func(Sample, error) bool

	// documents are those with unfinished samples, and the tokens known of the documents after them, into
	// which samples may extend.
	documents []*document
	ended     bool // the last document has been read
	samples   int
}

// A document holds the tokens of the text from one SampleStart to the next, or of the whole text.
type document struct {
	tokens   []int32 // with BOS and EOS, without tokens of finished samples
	bos, eos int     // number of BOS at the start and of EOS at the end
	complete bool
	begun    bool   // has at least one sample
	offset   int    // offset of the next sample in tokens; −1 if not yet known
	origin   Origin // place of tokens[0]
}

func (s *textSampler) read(r *documentReader) error {
	if s.t.NumTokens() == 0 || r.text == nil {
		return errors.New("the vocabulary, or the reader of the text, is nil")
	}
	if s.o.Length < 1 {
		return noLength(s.o.Length)
	}
	if s.o.Length > math.MaxInt32 {
		return fmt.Errorf("samples of %d tokens are too long; the limit is %d", s.o.Length, math.MaxInt32)
	}
	found := false
	for r.next() {
		if err := s.readDocument(r, !found); err != nil {
			return err
		}
		found = true
	}
	if r.err != io.EOF {
		return r.err
	}
	if !found {
		return fmt.Errorf("the text does not contain %q, where a sample would start", s.o.SampleStart)
	}
	s.ended = true
	if err := s.makeSamples(); err != nil {
		return err
	}
	if s.samples == 0 {
		return errors.New("the text has no sample of at least 2 tokens")
	}
	return nil
}

// readDocument reads another document, and makes the samples that are complete.
func (s *textSampler) readDocument(r *documentReader, first bool) error {
	d := &document{offset: -1, origin: r.origin}
	s.documents = append(s.documents, d)
	atCut := s.o.SampleStart != ""
	if atCut && s.o.SeparateBOS || first && s.t.AddsBOS() {
		d.bos = d.add(s.t.BOS())
	}
	o := tokenizer.EncodeOptions{ParseSpecial: true}
	own := d.bos > 0 // the text may begin with its own BOS, which replaces this one
	add := func(ids []int32) {
		if own && len(ids) > 0 {
			if own = false; ids[0] == s.t.BOS() {
				ids = ids[1:]
			}
		}
		d.tokens = append(d.tokens, ids...)
	}
	if text, ok := r.short(); ok {
		add(s.t.Encode(text, o))
	} else {
		for ids, err := range s.t.EncodeReader(r, o) {
			if err != nil {
				return err
			}
			add(ids)
			if err := s.makeSamples(); err != nil {
				return err
			}
		}
	}
	if atCut && s.o.SeparateEOS {
		d.eos = d.add(s.t.EOS())
	}
	d.complete = true
	return s.makeSamples()
}

// add appends a special token, if the vocabulary has it, and returns the number of tokens appended.
func (d *document) add(id int32) int {
	if id == tokenizer.None {
		return 0
	}
	d.tokens = append(d.tokens, id)
	return 1
}

// makeSamples makes the samples that do not depend on later text.
func (s *textSampler) makeSamples() error {
	for len(s.documents) > 0 {
		d := s.documents[0]
		if d.complete && d.begun && len(d.tokens) < 2 {
			s.documents = s.documents[1:]
			continue
		}
		if !s.chooseOffset(d) {
			return nil
		}
		tokens, ok := s.collect(d.offset + s.o.Length + 1)
		if !ok {
			return nil
		}
		if tokens = tokens[min(d.offset, len(tokens)):]; len(tokens) > 1 {
			s.samples++
			origin := d.origin
			origin.Token += d.offset
			if !s.yield(Sample{Tokens: tokens, Origin: origin}, nil) {
				return errStopped
			}
		}
		taken := min(s.o.Length, len(d.tokens))
		d.tokens = d.tokens[taken:]
		d.origin.Token += taken
		d.begun, d.offset = true, -1
	}
	return nil
}

// chooseOffset sets the offset of the next sample. It returns false if that depends on later text.
func (s *textSampler) chooseOffset(d *document) bool {
	switch {
	case d.offset >= 0:
		return true
	case !s.o.RandomOffsets:
		d.offset = 0
		return true
	case !d.complete && len(d.tokens) <= s.o.Length:
		return false
	}
	d.offset = s.random.IntN(max(1, min(s.o.Length, len(d.tokens)-1)))
	return true
}

// collect returns the first n tokens from the first document on, or fewer at the end of the text. ok
// is false if the result depends on later text.
func (s *textSampler) collect(n int) (tokens []int32, ok bool) {
	tokens = make([]int32, 0, min(n, readSize))
	last := s.documents[0]
	for i, d := range s.documents {
		own := d.tokens
		if i > 0 && s.o.Overlapping {
			own = own[d.bos:]
		}
		if s.o.Overlapping {
			own = own[:len(own)-d.eos]
		}
		tokens = append(tokens, own[:min(len(own), n-len(tokens))]...)
		if len(tokens) == n {
			return tokens, true
		}
		if last = d; !d.complete {
			return nil, false
		}
		if !s.o.Overlapping && !s.o.FillWithNext {
			return tokens, true
		}
	}
	if !s.ended {
		return nil, false
	}
	if s.o.Overlapping { // only the end of the text has EOS
		tokens = append(tokens, last.tokens[len(last.tokens)-last.eos:]...)
	}
	return tokens, true
}
