package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// A decoder computes tokens that follow others, whose keys and values are in
// the lanes of its cache, one sequence each.
type decoder struct {
	m         *Model
	deltas    Deltas
	adapted   *adapted // nil on other devices than the CPU
	engine    *Engine
	ownEngine bool
	cache     *cache
	batch     int
	graphs    []*decodeGraph // the one used last is first
	closed    bool
}

// maxGraphs is the number of graphs that are kept. A conversation uses a few
// shapes again and again: one token, a whole batch, the span's next step.
const maxGraphs = 8

func (m *Model) newDecoder(lanes int, o SessionOptions) (*decoder, error) {
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
	d := &decoder{m: m, deltas: o.Deltas, engine: o.Engine, batch: o.Batch}
	var err error
	if d.engine == nil {
		if d.engine, err = NewEngine(o.Threads); err != nil {
			return nil, err
		}
		d.ownEngine = true
	}
	if d.cache, err = newCache(m, o.CacheType, lanes, o.Context, d.engine.Backend.BufferType()); err != nil {
		d.close()
		return nil, err
	}
	if d.onCPU() {
		if _, err := kernels.GEMMLibrary(); err != nil {
			d.close()
			return nil, err
		}
		if d.adapted, err = m.adapt(o.Deltas); err != nil {
			d.close()
			return nil, err
		}
	}
	if _, err := d.graph(graphShape{lanes: 1, tokens: 1, span: d.cache.span(1)}); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *decoder) onCPU() bool { return d.engine.Backend.Device().Type() == ggml.CPU }

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

func (d *decoder) close() {
	d.closed = true
	for _, g := range d.graphs {
		g.ctx.Close()
	}
	d.graphs = nil
	if d.cache != nil {
		d.cache.close()
	}
	d.adapted.close()
	if d.ownEngine {
		d.engine.Close()
	}
}

// extend computes tokens that follow start others in a lane, and have been
// checked, and writes the logits of the last one, or of all. When it fails they
// are forgotten.
func (d *decoder) extend(ctx context.Context, lane, start int, tokens []int32, all bool, logits []float32) error {
	pos := start
	for chunk := range slices.Chunk(tokens, d.batch) {
		part := logits
		if all {
			part, logits = logits[:len(chunk)*d.m.Vocab], logits[len(chunk)*d.m.Vocab:]
		}
		if err := d.pass(ctx, lane, []int{pos}, chunk, all, part); err != nil {
			d.cache.forget(lane, start)
			return err
		}
		pos += len(chunk)
	}
	return nil
}

func (d *decoder) check(start int, tokens []int32) error {
	if d.closed {
		return fmt.Errorf("session: %w", ggml.ErrClosed)
	}
	if len(tokens) == 0 {
		return errors.New("there are no tokens to decode")
	}
	if len(tokens) > d.cache.length-start {
		return fmt.Errorf("%w: %d tokens after %d do not fit into %d; use a larger context or a shorter text", ErrContextFull, len(tokens), start, d.cache.length)
	}
	for i, t := range tokens {
		if t < 0 || int(t) >= d.m.Vocab {
			return fmt.Errorf("token %d is %d; the vocabulary has %d", i, t, d.m.Vocab)
		}
	}
	return nil
}

// pass computes as many tokens in each lane from first on, which follow
// starts[i] others there. It writes the logits of the last token of each lane,
// or of all.
func (d *decoder) pass(ctx context.Context, first int, starts []int, tokens []int32, all bool, logits []float32) error {
	shape := graphShape{first: first, lanes: len(starts), tokens: len(tokens) / len(starts), all: all}
	shape.span = d.cache.span(slices.Max(starts) + shape.tokens)
	for i, start := range starts {
		if err := d.cache.zero(first+i, start, shape.span); err != nil {
			return err
		}
	}
	g, err := d.graph(shape)
	if err != nil {
		return err
	}
	if err := d.engine.Allocate(g.Graph); err != nil {
		return err
	}
	if err := g.write(tokens, starts); err != nil {
		return err
	}
	if err := d.engine.Backend.Compute(ctx, g.Graph); err != nil {
		return err
	}
	return ggml.ReadInto(logits, g.logits)
}

// graphShape is what graphs differ in.
type graphShape struct {
	first, lanes int
	tokens       int  // of a lane
	span         int  // positions of the cache that take part
	all          bool // logits of all tokens, not only of the last one
}

// A decodeGraph computes tokens at the end of sequences.
type decodeGraph struct {
	*ggml.Graph
	shape graphShape
	ctx   *ggml.Context

	tokens, positions *ggml.Tensor // inputs
	attention         *cached
	logits            *ggml.Tensor // [vocab, lanes or lanes·tokens]
}

// graph finds or builds the graph of a shape.
func (d *decoder) graph(shape graphShape) (*decodeGraph, error) {
	i := slices.IndexFunc(d.graphs, func(g *decodeGraph) bool { return g.shape == shape })
	if i >= 0 {
		g := d.graphs[i]
		copy(d.graphs[1:], d.graphs[:i])
		d.graphs[0] = g
		return g, nil
	}
	g := d.build(shape)
	if err := g.ctx.Err(); err != nil {
		g.ctx.Close()
		return nil, err
	}
	if len(d.graphs) == maxGraphs {
		d.graphs[maxGraphs-1].ctx.Close()
		d.graphs = d.graphs[:maxGraphs-1]
	}
	d.graphs = slices.Insert(d.graphs, 0, g)
	return g, nil
}

func (d *decoder) build(shape graphShape) *decodeGraph {
	c := ggml.NewContext()
	n, lanes, span := int64(shape.tokens*shape.lanes), int64(shape.lanes), int64(shape.span)
	g := &decodeGraph{Graph: c.NewGraph(), shape: shape, ctx: c}
	g.tokens = c.NewTensor(ggml.I32, n).SetName("tokens").SetInput()
	g.positions = c.NewTensor(ggml.I32, n).SetName("positions").SetInput()
	g.attention = &cached{
		cache: d.cache, first: int64(shape.first), lanes: lanes, span: span,
		rows: c.NewTensor(ggml.I64, n).SetName("rows").SetInput(),
		mask: c.NewTensor(ggml.F16, span, int64(shape.tokens), 1, lanes).SetName("mask").SetInput(),
	}
	p := &Pass{
		m: d.m, deltas: d.deltas, length: n, batch: 1, positions: g.positions, attention: g.attention,
		cpu: d.onCPU(), adapted: d.adapted, thin: map[string]*Var{},
	}
	library, _ := kernels.GEMMLibrary()
	p.tiles = p.cpu && library != ""
	p.products = kernels.FastestType()
	if !shape.all && shape.lanes == 1 {
		p.keep = 1
	}
	t := &tape{c: c, g: g.Graph, acc: accPrecision(p.products)}
	g.logits = p.logits(t, p.hidden(t, g.tokens, false)).T.SetOutput()
	g.Expand(g.logits)
	return g
}

// write fills the inputs for tokens that follow starts[i] others in lane i.
func (g *decodeGraph) write(tokens []int32, starts []int) error {
	n, span := g.shape.tokens, g.shape.span
	positions, rows := make([]int32, len(tokens)), make([]int64, len(tokens))
	mask := make([]ggml.Float16, len(tokens)*span) // zero: counts
	for i := range tokens {
		lane, pos := i/n, starts[i/n]+i%n
		positions[i], rows[i] = int32(pos), g.attention.row(g.shape.first+lane, pos)
		for j := pos + 1; j < span; j++ {
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
