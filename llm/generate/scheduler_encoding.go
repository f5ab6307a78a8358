package generate

import (
	"context"

	"github.com/goggml/ggml/llm/infer"
)

// An encoding is a job that computes the embeddings or scores of texts, a chunk at a time. It takes the place of a text that is
// generated.
type encoding struct {
	ctx      context.Context
	make     func() (*infer.Encoding, error)
	adapters *infer.Adapters
	of       *infer.Encoding
	vectors  [][]float32
	done     chan error // has room for one
}

func (e *encoding) context() context.Context { return e.ctx }

func (e *encoding) hasRoom(s *Scheduler) bool { return s.hasRoom() }

// begin makes the encoding.
func (e *encoding) begin(s *Scheduler) {
	var err error
	if e.of, err = e.make(); err != nil {
		e.fail(err)
		return
	}
	s.encodings = append(s.encodings, e)
}

func (e *encoding) fail(err error) { e.done <- err }

// step computes at most n tokens, and reports whether the encoding has ended.
func (e *encoding) step(n int) bool {
	err := context.Cause(e.ctx)
	ended := err != nil
	if err == nil {
		ended, err = e.of.Step(e.ctx, n)
	}
	if ended && err == nil {
		e.vectors, err = e.of.Vectors(e.ctx)
	}
	if ended = ended || err != nil; ended {
		e.end(err)
	}
	return ended
}

// end reports the end of an encoding that has begun.
func (e *encoding) end(err error) {
	e.of.Close() // cannot fail: only this goroutine uses the session
	e.done <- err
}

// Embed is [Embed] in the session of the scheduler.
func (s *Scheduler) Embed(ctx context.Context, texts []string, o infer.EmbedOptions) ([][]float32, error) {
	if err := s.checkMade(); err != nil {
		return nil, err
	}
	tokens, err := EncodeTexts(s.m, texts)
	if err != nil {
		return nil, err
	}
	return s.EmbedTokens(ctx, tokens, o)
}

// EmbedTokens is [infer.Session.Embed] in the session of the scheduler, for texts in tokens ([EncodeTexts]). Long texts are
// computed in chunks, as prompts are.
func (s *Scheduler) EmbedTokens(ctx context.Context, texts [][]int32, o infer.EmbedOptions) ([][]float32, error) {
	return s.encode(ctx, &encoding{adapters: o.Adapters, make: func() (*infer.Encoding, error) { return s.session.NewEncoding(texts, o) }})
}

// Rerank is [Rerank] in the session of the scheduler.
func (s *Scheduler) Rerank(ctx context.Context, query string, documents []string) ([]float32, error) {
	if err := s.checkMade(); err != nil {
		return nil, err
	}
	tokens, err := pairs(s.m, query, documents)
	if err != nil {
		return nil, err
	}
	return firstScores(s.encode(ctx, &encoding{make: func() (*infer.Encoding, error) { return s.session.NewScoring(tokens) }}))
}

// encode submits an encoding, and returns its vectors.
func (s *Scheduler) encode(ctx context.Context, e *encoding) ([][]float32, error) {
	ctx, cancel, err := s.begins(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer cancel()
	e.ctx, e.done = ctx, make(chan error, 1)
	if err := s.submit(e); err != nil {
		return nil, err
	}
	if err := <-e.done; err != nil {
		return nil, err
	}
	return e.vectors, nil
}
