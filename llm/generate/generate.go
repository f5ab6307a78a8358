// Package generate continues text with a language model.
package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

// ErrCut is a text that ends because the context is full. What there is of it
// has been written.
var ErrCut = errors.New("the text was cut: the context is full")

// Options are the settings of [Text].
type Options struct {
	Limit     int  // most tokens to generate; 0 goes on until the context is full
	IgnoreEOG bool // do not let the model end the text
}

// Stats are the speed of a generation.
type Stats struct {
	Prompt    int           // tokens of the prompt
	PromptFor time.Duration // computing them, up to the first new token
	Generated int           // tokens
	// GeneratedFor is the time from the first new token to the end. The first
	// one costs no pass of its own: its logits are the prompt's.
	GeneratedFor time.Duration
}

// Text writes the model's continuation of a prompt to w as it comes into
// being, until the model ends the text, the limit is reached, or ctx is
// cancelled. The session keeps what it has seen: its next text goes on from
// there. When it stops, for whatever reason, what there is has been written.
func Text(ctx context.Context, w io.Writer, m *model.Model, s *model.Session, pick *sample.Sampler, prompt string, o Options) (Stats, error) {
	if m.Tokenizer == nil {
		return Stats{}, fmt.Errorf("%s has no vocabulary, so text means nothing to it", m.Path)
	}
	tokens, err := promptTokens(m.Tokenizer, prompt, s.Pos() == 0)
	if err != nil {
		return Stats{}, err
	}
	g := &generation{m: m, s: s, pick: pick, w: w, o: o, decoder: m.Tokenizer.NewDecoder(tokenizer.DecodeOptions{Continuation: true})}
	began := time.Now()
	logits, err := s.Decode(ctx, tokens)
	if err != nil {
		return Stats{}, fmt.Errorf("the prompt: %w", err)
	}
	pick.Accept(tokens...)
	first := time.Now()
	err = g.stream(ctx, logits)
	_, writeErr := io.WriteString(w, g.decoder.Flush())
	return Stats{
		Prompt: len(tokens), PromptFor: first.Sub(began),
		Generated: g.generated, GeneratedFor: time.Since(first),
	}, errors.Join(err, writeErr)
}

// promptTokens encodes the prompt, without the EOS that some models put behind
// a text.
func promptTokens(t *tokenizer.Tokenizer, prompt string, start bool) ([]int32, error) {
	tokens := t.Encode(prompt, tokenizer.EncodeOptions{AddSpecial: start, ParseSpecial: true})
	if start && t.AddsEOS() && len(tokens) > 0 {
		tokens = tokens[:len(tokens)-1]
	}
	if len(tokens) == 0 {
		return nil, errors.New("the prompt is empty, and the model has no token that begins a text")
	}
	return tokens, nil
}

type generation struct {
	m         *model.Model
	s         *model.Session
	pick      *sample.Sampler
	w         io.Writer
	o         Options
	decoder   *tokenizer.Decoder
	generated int
}

func (g *generation) stream(ctx context.Context, logits []float32) error {
	for {
		if g.o.IgnoreEOG {
			g.excludeEOG(logits)
		}
		token, err := g.pick.Sample(logits)
		if err != nil {
			return err
		}
		if g.m.Tokenizer.IsEOG(token) {
			return nil
		}
		g.generated++
		if _, err := io.WriteString(g.w, g.decoder.Push(token)); err != nil {
			return err
		}
		if g.generated == g.o.Limit {
			return nil
		}
		logits, err = g.s.Decode(ctx, []int32{token})
		if errors.Is(err, model.ErrContextFull) {
			return ErrCut
		}
		if err != nil {
			return err
		}
	}
}

func (g *generation) excludeEOG(logits []float32) {
	for id := range logits {
		if g.m.Tokenizer.IsEOG(int32(id)) {
			logits[id] = float32(math.Inf(-1))
		}
	}
}
