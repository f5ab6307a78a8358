package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// ErrContextFull is a sequence that is longer than the context of its
// [Session].
var ErrContextFull = errors.New("the context is full")

// SessionOptions are the settings of a [Session]; the zero value is usual.
type SessionOptions struct {
	// Context is the most tokens the sequence can have; 0 is what the model
	// was trained on. The KV cache takes memory in proportion.
	Context int
	// CacheType is the type of the KV cache: F32, the zero value, is exact; F16
	// takes half the memory, and is llama.cpp's default; Q8_0 a quarter.
	CacheType ggml.Type
	// Adapters are as they are when the session is made. A pair of scale 0 is left
	// out. They are computed in the type of their file, F32 or 16 bits, whatever type the
	// model has; in F32, if pairs of one input are of several types. Those of the token
	// embedding are not copied: they stay open and unchanged as long as the session.
	Adapters model.Adapters
	// Batch is the most tokens that are computed at once, 0 for 512.
	Batch int
	// Engine computes, on the device of the model; nil makes one of Threads threads (0 for
	// [ggml.DefaultThreads]), which Close closes.
	Engine  *device.Engine
	Threads int
}

// A Session continues a sequence of tokens: it keeps the keys and values of
// what it has seen, so that each further token costs one pass over one token.
// A [Batch] continues several at once.
//
// It is not safe for concurrent use, nor is its engine; sessions with engines
// of their own can share a model. Close it before the model.
type Session struct {
	d   *decoder
	pos int
}

// NewSession makes an empty sequence. It builds the graph of one token, and so
// reports what is wrong with the adapters.
func NewSession(m *model.Model, o SessionOptions) (*Session, error) {
	d, err := newDecoder(m, 1, o)
	if err != nil {
		return nil, err
	}
	return &Session{d: d}, nil
}

// Close frees the session. It never fails.
func (s *Session) Close() error {
	if s != nil {
		s.d.close()
	}
	return nil
}

func (s *Session) checkOpen() error {
	if s == nil {
		return errors.New("the session is nil")
	}
	return s.d.checkOpen("session", "NewSession")
}

// Pos is the number of tokens in the sequence.
func (s *Session) Pos() int { return s.pos }

// Context is the number of tokens that the sequence can have.
func (s *Session) Context() int { return s.d.cache.length }

// Truncate drops all but the first n tokens of the sequence.
func (s *Session) Truncate(n int) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if n < 0 || n > s.pos {
		return fmt.Errorf("a sequence of %d tokens cannot be cut to %d", s.pos, n)
	}
	s.pos = n
	s.d.cache.forget(0, n)
	return nil
}

// Decode appends tokens to the sequence and returns the logits [vocab] of what
// follows the last one.
//
// When it fails, for [ErrContextFull] or because ctx is cancelled for example,
// the sequence is as before and the session can be used again. Only after
// [ggml.ErrBroken] it cannot: every further call fails with it too.
func (s *Session) Decode(ctx context.Context, tokens []int32) ([]float32, error) {
	return s.decode(ctx, tokens, false)
}

// DecodeInto is Decode into logits [vocab] of the caller's, to generate without
// garbage.
func (s *Session) DecodeInto(ctx context.Context, logits []float32, tokens []int32) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if len(logits) != s.d.m.Config().Vocab {
		return fmt.Errorf("there are logits of %d tokens to write; there is room for %d", s.d.m.Config().Vocab, len(logits))
	}
	if err := s.d.check(s.pos, tokens); err != nil {
		return err
	}
	return s.extend(ctx, tokens, false, logits)
}

// DecodeAll is Decode with the logits of what follows each token, [len(tokens)][vocab].
func (s *Session) DecodeAll(ctx context.Context, tokens []int32) ([][]float32, error) {
	flat, err := s.decode(ctx, tokens, true)
	if err != nil {
		return nil, err
	}
	return slices.Collect(slices.Chunk(flat, s.d.m.Config().Vocab)), nil
}

func (s *Session) decode(ctx context.Context, tokens []int32, all bool) ([]float32, error) {
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	if err := s.d.check(s.pos, tokens); err != nil {
		return nil, err
	}
	n := 1
	if all {
		n = len(tokens)
	}
	logits := make([]float32, n*s.d.m.Config().Vocab)
	if err := s.extend(ctx, tokens, all, logits); err != nil {
		return nil, err
	}
	return logits, nil
}

func (s *Session) extend(ctx context.Context, tokens []int32, all bool, logits []float32) error {
	err := s.d.extend(ctx, 0, s.pos, tokens, all, logits)
	if err == nil {
		s.pos += len(tokens)
	}
	return err
}
