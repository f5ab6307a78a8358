package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// A decoder computes the next tokens of sequences, each in its slot of the states.
type decoder struct {
	m         *model.Model
	engine    *device.Engine
	ownEngine bool
	lowering  *lowering
	states    *states
	batch     int
	whole     bool           // the model is not causal: each text is one pass without states
	pads      bool           // sequences can be cut anywhere, so passes may compute tokens behind their ends
	together  int            // most tokens of a pass over several texts
	graphs    []*decodeGraph // most recently used first
	closed    bool
}

// maxGraphs is the number of cached graphs for equal adapters. A conversation uses few shapes: one token, a
// whole batch, the next step of the attended length.
const maxGraphs = 8

// states returns the options of states; the session's options are complete.
func (o *SessionOptions) states() state.Options {
	return state.Options{Type: o.CacheType, Slots: o.Sequences, Length: o.Context, Batch: o.Batch, Full: o.FullCache}
}

func newDecoder(m *model.Model, o SessionOptions) (*decoder, error) {
	d, err := o.decoder(m)
	if err != nil {
		return nil, err
	}
	if err := d.open(o); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// decoder completes the options and returns a decoder without engine and states.
func (o *SessionOptions) decoder(m *model.Model) (*decoder, error) {
	if err := m.CheckOpen(); err != nil {
		return nil, err
	}
	if o.Sequences == 0 {
		o.Sequences = 1
	}
	if o.Sequences < 1 || o.Sequences > state.MaxSlots {
		return nil, fmt.Errorf("a session cannot have %d sequences; it has 1 to %d", o.Sequences, state.MaxSlots)
	}
	if o.Context == 0 {
		o.Context = m.Config().Context
	}
	if o.Context < 1 || o.Context > math.MaxInt32 {
		return nil, fmt.Errorf("a context cannot have %d tokens", o.Context)
	}
	if o.Batch <= 0 {
		o.Batch = 512
	}
	if err := m.CheckAdapters(o.Adapters); err != nil {
		return nil, err
	}
	d := &decoder{m: m, engine: o.Engine, batch: o.Batch, together: o.Batch, whole: !m.Architecture().IsCausal()}
	if d.whole {
		d.batch = o.Context
	}
	return d, nil
}

func (d *decoder) open(o SessionOptions) error {
	var err error
	if d.engine == nil {
		if d.engine, err = device.New(device.Options{Layout: d.m.Layout(), Threads: o.Threads}); err != nil {
			return err
		}
		d.ownEngine = true
	}
	if err := d.engine.CheckOpen(); err != nil {
		return err
	}
	if err := d.m.CheckEngine(d.engine, o.Adapters); err != nil {
		return err
	}
	if d.lowering, err = newLowering(d.m, d.engine, nn.AdaptersOf(o.Adapters), 0); err != nil {
		return err
	}
	if d.states, err = newStates(d.m.Architecture(), o.states(), d.engine.Layout()); err != nil {
		return err
	}
	d.pads = !d.whole && !slices.ContainsFunc(d.states.all, func(x state.State) bool { _, ok := x.(*state.KV); return !ok })
	if err := d.reserve(o.Sequences); err != nil {
		return err
	}
	_, err = d.graph(graphShape{slots: 1, tokens: 1, attended: d.states.attended(1), output: d.usual()})
	return err
}

// usual returns the usual output of the model's passes.
func (d *decoder) usual() output {
	if d.m.Architecture().HasLogits() {
		return lastLogits
	}
	return hiddenStates
}

// reserve allocates memory on devices for the largest passes, so that a session that could be made does not run out later.
func (d *decoder) reserve(sequences int) error {
	if d.engine.Layout().IsCPU() {
		return nil // the system provides memory as it is written
	}
	graphs, err := d.largest(sequences)
	for _, g := range graphs {
		if err == nil {
			err = d.engine.Reserve(g)
		}
	}
	return err
}

// largest returns the graphs that need most memory: a whole batch, and one token of each sequence, at the end of the
// context.
func (d *decoder) largest(sequences int) ([]*ggml.Graph, error) {
	shapes := []graphShape{{slots: 1, tokens: min(d.batch, d.states.length), attended: d.states.length, output: d.usual()}}
	if sequences > 1 && !d.whole {
		shapes = append(shapes, graphShape{slots: sequences, tokens: 1, attended: d.states.length})
	}
	var graphs []*ggml.Graph
	for _, shape := range shapes {
		g, err := d.graph(shape)
		if err != nil {
			return nil, err
		}
		graphs = append(graphs, g.Graph)
	}
	return graphs, nil
}

func (d *decoder) close() {
	if d == nil {
		return
	}
	d.closed = true
	for _, g := range d.graphs {
		g.ctx.Close()
	}
	d.graphs = nil
	d.states.close()
	d.lowering.close()
	if d.ownEngine {
		d.engine.Close()
	}
}

// extend computes checked tokens after the first start tokens of a slot, and writes the
// logits of the last one or of all. If it fails, the caller restores the states.
func (d *decoder) extend(ctx context.Context, l *lowering, slot, start int, tokens []int32, all bool, logits []float32) error {
	pos, out := start, lastLogits
	if all {
		out = allLogits
	}
	for chunk := range slices.Chunk(tokens, d.batch) {
		part := logits
		if all {
			part, logits = logits[:len(chunk)*d.m.Config().Vocab], logits[len(chunk)*d.m.Config().Vocab:]
		}
		if err := d.pass(ctx, passLowering{of: l}, slot, []int{pos}, chunk, out, part); err != nil {
			return err
		}
		pos += len(chunk)
	}
	return nil
}

// checkOpen returns an error if the session or batch cannot decode.
func (d *decoder) checkOpen(what, maker string) error {
	switch {
	case d == nil:
		return fmt.Errorf("the %s is a zero value; %s makes one: %w", what, maker, ggml.ErrZeroValue)
	case d.closed:
		return fmt.Errorf("%s: %w", what, ggml.ErrClosed)
	}
	return nil
}

func (d *decoder) check(start int, tokens []int32) error {
	if len(tokens) == 0 {
		return errors.New("there are no tokens to decode")
	}
	if start > 0 {
		if err := d.m.Architecture().CheckCausal(fmt.Sprintf("a sequence of %s cannot be continued; rewind it to 0, and decode its whole text at once", counted.Of(start, "token"))); err != nil {
			return err
		}
	}
	if len(tokens) > d.states.length-start {
		return fmt.Errorf("%w: no room for %s at position %d of a context of %d; use a larger context or a shorter text", ErrContextFull, counted.Of(len(tokens), "token"), start, d.states.length)
	}
	for i, t := range tokens {
		if t < 0 || int(t) >= d.m.Config().Vocab {
			return fmt.Errorf("token %d is %d; the vocabulary has %d", i, t, d.m.Config().Vocab)
		}
	}
	return nil
}

// pass computes equally many tokens in each slot from first on, after the first starts[i]
// tokens there, and writes the output.
func (d *decoder) pass(ctx context.Context, l passLowering, first int, starts []int, tokens []int32, out output, dst []float32) error {
	shape := graphShape{lowering: l.of, first: first, slots: len(starts), tokens: len(tokens) / len(starts), output: out}
	shape.attended = d.states.attended(slices.Max(starts) + shape.tokens)
	for i, start := range starts {
		if err := d.states.prepare(first+i, start+shape.tokens, shape.attended); err != nil {
			return err
		}
	}
	f := d.feed(tokens, starts)
	f.Owners, f.Ends = l.owners, l.ends
	if err := d.compute(ctx, shape, f, dst); err != nil {
		return err
	}
	for i, start := range starts {
		if err := d.states.commit(first+i, start+shape.tokens); err != nil {
			return err
		}
	}
	return nil
}

// compute computes the graph of a shape and writes its output.
func (d *decoder) compute(ctx context.Context, shape graphShape, f *nn.Feed, dst []float32) error {
	if ctx == nil {
		return errors.New("the context.Context is nil")
	}
	g, err := d.graph(shape)
	if err != nil {
		return err
	}
	if err := d.engine.Allocate(g.Graph); err != nil {
		return err
	}
	if err := g.inputs.Fill(f); err != nil {
		return err
	}
	if err := d.engine.Compute(ctx, g.Graph); err != nil {
		return err
	}
	return ggml.ReadInto(dst, g.output)
}

// An output is the result of a pass.
type output int

const (
	lastLogits   output = iota // [vocab, slots], after the last token of each slot
	allLogits                  // [vocab, tokens]
	hiddenStates               // [embd, tokens], before the output matrix
	projection                 // [m, slots], of pooled hidden states
	scores                     // [classes, slots], of pooled hidden states
)

// graphShape identifies a graph.
type graphShape struct {
	lowering     *lowering // nil: the session's own
	first, slots int
	tokens       int  // of each slot
	attended     int  // positions of a slot that attention reads
	padded       bool // whole texts may be shorter than tokens
	output       output
}

// A decodeGraph computes tokens at the end of sequences.
type decodeGraph struct {
	*ggml.Graph
	shape  graphShape
	ctx    *ggml.Context
	inputs *nn.Inputs
	output *ggml.Tensor
}

// graph returns the graph of a shape, from the cache or new.
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
	of := 0
	for _, g := range d.graphs {
		if g.shape.lowering == shape.lowering {
			of++
		}
	}
	if of == maxGraphs {
		d.dropLast(shape.lowering)
	}
	d.graphs = slices.Insert(d.graphs, 0, g)
	return g, nil
}

// dropLast drops the graph of a lowering that has not been used for longest.
func (d *decoder) dropLast(l *lowering) {
	for i, g := range slices.Backward(d.graphs) {
		if g.shape.lowering == l {
			g.ctx.Close()
			d.graphs = slices.Delete(d.graphs, i, i+1)
			return
		}
	}
}

// forget drops all graphs of a lowering.
func (d *decoder) forget(l *lowering) {
	d.graphs = slices.DeleteFunc(d.graphs, func(g *decodeGraph) bool {
		if g.shape.lowering == l {
			g.ctx.Close()
		}
		return g.shape.lowering == l
	})
}

func (d *decoder) build(shape graphShape) *decodeGraph {
	c := ggml.NewContext()
	g := &decodeGraph{Graph: c.NewGraph(), shape: shape, ctx: c, inputs: nn.NewInputs(c)}
	t := cmp.Or(shape.lowering, d.lowering).tape(c, g.Graph, shape.tokens)
	t.Inputs = g.inputs
	b := &arch.Builder{
		Architecture: d.m.Architecture(), Source: d.m.Weight,
		States: d.states.byLayer, Pass: state.Pass{First: int64(shape.first), Slots: int64(shape.slots), Attended: int64(shape.attended)},
		NumTokens: int64(shape.tokens * shape.slots), Rows: int64(shape.slots), Packed: shape.padded, Context: d.states.length,
	}
	if shape.output == lastLogits && shape.slots == 1 {
		b.Keep = 1
	}
	var x *nn.Value
	switch shape.output {
	case hiddenStates:
		x = b.Hidden(t)
	case projection:
		x = b.Project(t, pooled(t, b))
	case scores:
		x = b.Classify(t, pooled(t, b))
	case lastLogits:
		x = b.Hidden(t)
		if shape.slots > 1 && shape.tokens > 1 {
			x = t.Ends(x, b.Rows)
		}
		x = b.Logits(t, x)
	default:
		x = b.Logits(t, b.Hidden(t))
	}
	g.output = x.T.SetOutput()
	g.Expand(g.output)
	return g
}

// feed returns the inputs for tokens after the first starts[i] tokens of slot i.
func (d *decoder) feed(tokens []int32, starts []int) *nn.Feed {
	f := &nn.Feed{Rows: len(starts), Tokens: tokens, Positions: make([]int32, len(tokens))}
	for i := range tokens {
		f.Positions[i] = int32(starts[i/f.Length()] + i%f.Length())
	}
	if d.whole {
		f.Starts = make([]int32, len(tokens)) // each row is one text
	}
	return f
}
