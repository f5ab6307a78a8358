package data

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"

	"github.com/goggml/ggml/llm/tokenizer"
)

// TextOptions say how text becomes samples.
type TextOptions struct {
	Length int // predicted tokens of a sample
	// SampleStart cuts the text where it occurs, and a sample begins at each
	// cut; what comes before the first is left out. A part of more than Length
	// tokens becomes several samples. Without SampleStart they follow each other
	// through the whole text.
	SampleStart        string
	IncludeSampleStart bool // keep the string itself in the samples
	// Overlapping lets a sample that is too short go on in the text beyond the
	// next cuts.
	Overlapping bool
	// FillWithNext appends the samples that follow, with their BOS and EOS, to
	// one that is too short.
	FillWithNext bool
	SeparateBOS  bool // put BOS before each sample that begins at a cut
	SeparateEOS  bool // put EOS after each
	// RandomOffsets moves the beginning of each sample by a random number of
	// tokens, fewer than Length and than its part has left, so that samples begin
	// anywhere. The offsets depend on Seed alone.
	RandomOffsets bool
	Seed          uint64
}

// FromText tokenises text into samples, which are in memory.
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

// TextSamples tokenises the text of r into samples, for [Prepare]. It holds some
// megabytes in memory, however long the text is. The error is that of r, or says
// that there are no samples.
func TextSamples(t *tokenizer.Tokenizer, r io.Reader, o TextOptions) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		cuts := textCuts{r: r, marker: []byte(o.SampleStart), keep: o.IncludeSampleStart, size: readSize}
		s := textSampler{t: t, o: o, yield: yield, random: rand.New(rand.NewPCG(o.Seed, 0))}
		if err := s.read(&cuts); err != nil && err != errStopped {
			yield(Sample{}, err)
		}
	}
}

// A textSampler makes samples of the tokens of a text as they come.
type textSampler struct {
	t      *tokenizer.Tokenizer
	o      TextOptions
	random *rand.Rand
	yield  func(Sample, error) bool

	// parts are those whose samples are not all made, and what is known of those
	// behind, which samples may go on into.
	parts   []*textPart
	ended   bool // there are no more parts
	samples int
}

// A textPart is the tokens between two cuts.
type textPart struct {
	tokens   []int32 // with BOS and EOS, but without those of samples that are made
	bos, eos int     // how many are BOS, at the start, and EOS, at the end
	complete bool
	begun    bool // a sample is made
	offset   int  // of the next sample in tokens; -1 as long as it is not known
}

func (s *textSampler) read(cuts *textCuts) error {
	if s.o.Length < 1 {
		return fmt.Errorf("samples of %d tokens are empty", s.o.Length)
	}
	found := false
	for cuts.next() {
		if err := s.readPart(cuts, !found); err != nil {
			return err
		}
		found = true
	}
	if cuts.err != io.EOF {
		return cuts.err
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

// readPart makes the samples that are certain after another part.
func (s *textSampler) readPart(cuts *textCuts, first bool) error {
	p := &textPart{offset: -1}
	s.parts = append(s.parts, p)
	atCut := s.o.SampleStart != ""
	if atCut && s.o.SeparateBOS || first && s.t.AddsBOS() {
		p.bos = p.add(s.t.BOS())
	}
	o := tokenizer.EncodeOptions{ParseSpecial: true}
	if text, ok := cuts.short(); ok {
		p.tokens = append(p.tokens, s.t.Encode(text, o)...)
	} else {
		for ids, err := range s.t.EncodeReader(cuts, o) {
			if err != nil {
				return err
			}
			p.tokens = append(p.tokens, ids...)
			if err := s.makeSamples(); err != nil {
				return err
			}
		}
	}
	if atCut && s.o.SeparateEOS {
		p.eos = p.add(s.t.EOS())
	}
	p.complete = true
	return s.makeSamples()
}

// add appends a special token, if the vocabulary has it, and returns how many
// it appended.
func (p *textPart) add(id int32) int {
	if id == tokenizer.None {
		return 0
	}
	p.tokens = append(p.tokens, id)
	return 1
}

// makeSamples makes the samples that do not depend on what is still to come.
func (s *textSampler) makeSamples() error {
	for len(s.parts) > 0 {
		p := s.parts[0]
		if p.complete && p.begun && len(p.tokens) < 2 {
			s.parts = s.parts[1:]
			continue
		}
		if !s.chooseOffset(p) {
			return nil
		}
		tokens, ok := s.collect(p.offset + s.o.Length + 1)
		if !ok {
			return nil
		}
		if tokens = tokens[min(p.offset, len(tokens)):]; len(tokens) > 1 {
			s.samples++
			if !s.yield(Sample{Tokens: tokens}, nil) {
				return errStopped
			}
		}
		p.tokens = p.tokens[min(s.o.Length, len(p.tokens)):]
		p.begun, p.offset = true, -1
	}
	return nil
}

// chooseOffset reports false where the offset of the next sample depends on what
// is still to come.
func (s *textSampler) chooseOffset(p *textPart) bool {
	switch {
	case p.offset >= 0:
		return true
	case !s.o.RandomOffsets:
		p.offset = 0
		return true
	case !p.complete && len(p.tokens) <= s.o.Length:
		return false
	}
	p.offset = s.random.IntN(max(1, min(s.o.Length, len(p.tokens)-1)))
	return true
}

// collect gives the first n tokens from the first part on, fewer where the text
// has no more. It reports false where that depends on what is still to come.
func (s *textSampler) collect(n int) (tokens []int32, ok bool) {
	tokens = make([]int32, 0, n)
	last := s.parts[0]
	for i, p := range s.parts {
		own := p.tokens
		if i > 0 && s.o.Overlapping {
			own = own[p.bos:]
		}
		if s.o.Overlapping {
			own = own[:len(own)-p.eos]
		}
		tokens = append(tokens, own[:min(len(own), n-len(tokens))]...)
		if len(tokens) == n {
			return tokens, true
		}
		if last = p; !p.complete {
			return nil, false
		}
		if !s.o.Overlapping && !s.o.FillWithNext {
			return tokens, true
		}
	}
	if !s.ended {
		return nil, false
	}
	if s.o.Overlapping { // EOS is at the end of the text alone
		tokens = append(tokens, last.tokens[len(last.tokens)-last.eos:]...)
	}
	return tokens, true
}
