package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
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
	// Deltas are the adapters. One of scale 0 is left out of the graph.
	Deltas Deltas
	// Batch is the most tokens that are computed at once, 0 for 512.
	Batch int
	// Engine computes; nil makes one of Threads threads (0 for
	// [ggml.DefaultThreads]), which Close closes.
	Engine  *Engine
	Threads int
}

// A Session continues a sequence of tokens: it keeps the keys and values of
// what it has seen, so that each further token costs one pass over one token.
//
// It is not safe for concurrent use, nor is its engine; sessions with engines
// of their own can share a model. Close it before the model.
type Session struct {
	m         *Model
	deltas    Deltas
	engine    *Engine
	ownEngine bool
	cache     *cache
	batch     int
	pos       int
	graphs    []*decodeGraph // the one used last is first
	closed    bool
}

// maxGraphs is the number of graphs that a session keeps. A conversation uses
// a few shapes again and again: one token, a whole batch, the span's next step.
const maxGraphs = 8

// NewSession makes an empty sequence. It builds the graph of one token, and so
// reports what is wrong with the adapters.
func (m *Model) NewSession(o SessionOptions) (*Session, error) {
	if o.Context == 0 {
		o.Context = m.Context
	}
	if o.Context < 1 || o.Context > math.MaxInt32 {
		return nil, fmt.Errorf("a context of %d tokens is impossible", o.Context)
	}
	if o.Batch <= 0 {
		o.Batch = 512
	}
	if err := m.checkDeltas(o.Deltas); err != nil {
		return nil, err
	}
	s := &Session{m: m, deltas: o.Deltas, engine: o.Engine, batch: o.Batch}
	var err error
	if s.engine == nil {
		if s.engine, err = NewEngine(o.Threads); err != nil {
			return nil, err
		}
		s.ownEngine = true
	}
	if s.cache, err = newCache(m, o.CacheType, o.Context, s.engine.Backend.BufferType()); err != nil {
		s.Close()
		return nil, err
	}
	if _, err := s.graph(graphShape{tokens: 1, span: s.cache.span(1)}); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// checkDeltas demands that adapters fit to the model.
func (m *Model) checkDeltas(deltas Deltas) error {
	const remedy = "it was made for another model"
	for name, list := range deltas {
		w := m.weights[name]
		if w == nil {
			return fmt.Errorf("an adapter changes %s, which the model does not have; %s", name, remedy)
		}
		in, out := w.Dim(0), w.Dim(1)
		for _, d := range list {
			if d.A == nil || d.B == nil {
				return fmt.Errorf("an adapter of %s lacks A or B", name)
			}
			a, b, r := d.A.Shape(), d.B.Shape(), d.B.Dim(0)
			wantA, wantB := []int64{in, r}, []int64{r, out}
			if name == "token_embd.weight" {
				wantA, wantB = []int64{r, out}, []int64{r, in}
			}
			if !slices.Equal(a, trimmed(wantA)) || !slices.Equal(b, trimmed(wantB)) {
				return fmt.Errorf("an adapter of %s has A %v and B %v instead of %v and %v; %s", name, a, b, wantA, wantB, remedy)
			}
		}
	}
	return nil
}

// Close frees the session. It never fails.
func (s *Session) Close() error {
	s.closed = true
	for _, g := range s.graphs {
		g.ctx.Close()
	}
	s.graphs = nil
	if s.cache != nil {
		s.cache.close()
	}
	if s.ownEngine {
		s.engine.Close()
	}
	return nil
}

// Pos is the number of tokens in the sequence.
func (s *Session) Pos() int { return s.pos }

// Context is the number of tokens that the sequence can have.
func (s *Session) Context() int { return s.cache.length }

// Truncate drops all but the first n tokens of the sequence.
func (s *Session) Truncate(n int) error {
	if n < 0 || n > s.pos {
		return fmt.Errorf("a sequence of %d tokens cannot be cut to %d", s.pos, n)
	}
	s.pos = n
	s.cache.forget(n)
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

// DecodeAll is Decode with the logits of what follows each token, [len(tokens)][vocab].
func (s *Session) DecodeAll(ctx context.Context, tokens []int32) ([][]float32, error) {
	flat, err := s.decode(ctx, tokens, true)
	if err != nil {
		return nil, err
	}
	return slices.Collect(slices.Chunk(flat, s.m.Vocab)), nil
}

func (s *Session) decode(ctx context.Context, tokens []int32, all bool) ([]float32, error) {
	if err := s.check(tokens); err != nil {
		return nil, err
	}
	start := s.pos
	var logits []float32
	if all {
		logits = make([]float32, 0, len(tokens)*s.m.Vocab)
	}
	for chunk := range slices.Chunk(tokens, s.batch) {
		part, err := s.pass(ctx, chunk, all)
		if err != nil {
			s.pos = start
			s.cache.forget(start)
			return nil, err
		}
		s.pos += len(chunk)
		if all {
			part = append(logits, part...)
		}
		logits = part
	}
	return logits, nil
}

func (s *Session) check(tokens []int32) error {
	if s.closed {
		return fmt.Errorf("session: %w", ggml.ErrClosed)
	}
	if len(tokens) == 0 {
		return errors.New("there are no tokens to decode")
	}
	if len(tokens) > s.cache.length-s.pos {
		return fmt.Errorf("%w: %d tokens after %d do not fit into %d; use a larger context or a shorter text", ErrContextFull, len(tokens), s.pos, s.cache.length)
	}
	for i, t := range tokens {
		if t < 0 || int(t) >= s.m.Vocab {
			return fmt.Errorf("token %d is %d; the vocabulary has %d", i, t, s.m.Vocab)
		}
	}
	return nil
}

// pass computes a batch of tokens at the end of the sequence.
func (s *Session) pass(ctx context.Context, tokens []int32, all bool) ([]float32, error) {
	span := s.cache.span(s.pos + len(tokens))
	if err := s.cache.zero(s.pos, span); err != nil {
		return nil, err
	}
	g, err := s.graph(graphShape{len(tokens), span, all})
	if err != nil {
		return nil, err
	}
	if err := s.engine.Allocate(g.Graph); err != nil {
		return nil, err
	}
	if err := g.write(tokens, s.pos); err != nil {
		return nil, err
	}
	if err := s.engine.Backend.Compute(ctx, g.Graph); err != nil {
		return nil, err
	}
	return ggml.Read[float32](g.logits)
}

// graphShape is what graphs differ in.
type graphShape struct {
	tokens int
	span   int  // positions of the cache that take part
	all    bool // logits of all tokens, not only of the last one
}

// A decodeGraph computes tokens at the end of a sequence.
type decodeGraph struct {
	*ggml.Graph
	shape graphShape
	ctx   *ggml.Context

	tokens, positions *ggml.Tensor // inputs
	attention         *cached
	logits            *ggml.Tensor // [vocab, n or 1]
}

// graph finds or builds the graph of a shape.
func (s *Session) graph(shape graphShape) (*decodeGraph, error) {
	i := slices.IndexFunc(s.graphs, func(g *decodeGraph) bool { return g.shape == shape })
	if i >= 0 {
		g := s.graphs[i]
		copy(s.graphs[1:], s.graphs[:i])
		s.graphs[0] = g
		return g, nil
	}
	g := s.build(shape)
	if err := g.ctx.Err(); err != nil {
		g.ctx.Close()
		return nil, err
	}
	if len(s.graphs) == maxGraphs {
		s.graphs[maxGraphs-1].ctx.Close()
		s.graphs = s.graphs[:maxGraphs-1]
	}
	s.graphs = slices.Insert(s.graphs, 0, g)
	return g, nil
}

func (s *Session) build(shape graphShape) *decodeGraph {
	c := ggml.NewContext()
	n, span := int64(shape.tokens), int64(shape.span)
	g := &decodeGraph{Graph: c.NewGraph(), shape: shape, ctx: c}
	g.tokens = c.NewTensor(ggml.I32, n).SetName("tokens").SetInput()
	g.positions = c.NewTensor(ggml.I32, n).SetName("positions").SetInput()
	g.attention = &cached{
		cache: s.cache, span: span,
		rows: c.NewTensor(ggml.I64, n).SetName("rows").SetInput(),
		mask: c.NewTensor(ggml.F16, span, n).SetName("mask").SetInput(),
	}
	p := &Pass{m: s.m, deltas: s.deltas, length: n, batch: 1, positions: g.positions, attention: g.attention}
	if !shape.all {
		p.keep = 1
	}
	t := &tape{c: c, g: g.Graph}
	g.logits = p.logits(t, p.hidden(t, g.tokens, false)).T.SetOutput()
	g.Expand(g.logits)
	return g
}

// write fills the inputs for tokens that follow start others.
func (g *decodeGraph) write(tokens []int32, start int) error {
	n, span := g.shape.tokens, g.shape.span
	positions, rows := make([]int32, n), make([]int64, n)
	mask := make([]ggml.Float16, n*span) // zero: counts
	for i := range n {
		positions[i], rows[i] = int32(start+i), int64(start+i)
		for j := start + i + 1; j < span; j++ {
			mask[i*span+j] = halfMinusInf
		}
	}
	return errors.Join(
		ggml.Write(g.tokens, tokens),
		ggml.Write(g.positions, positions),
		ggml.Write(g.attention.rows, rows),
		ggml.Write(g.attention.mask, mask),
	)
}

// halfMinusInf is −∞ in F16.
const halfMinusInf ggml.Float16 = 0xFC00
