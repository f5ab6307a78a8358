package lossgraph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
)

// usualChunk is the number of columns from which on products take no less time for a column: they convert a matrix once for
// as many.
const usualChunk = 512

// A Graph computes the loss of a batch, and adds its gradients to the accumulators. It is used by one goroutine, and
// so is its engine.
type Graph struct {
	Graph     *ggml.Graph
	m         *model.Model
	ctx       *ggml.Context
	engine    *device.Engine
	workspace *device.Workspace
	shared    bool // the workspace belongs to the caller, see Options
	length    int
	batch     int
	packed    bool
	branched  bool
	topK      int   // labels of the teacher for each token; 0 without a teacher
	computing Batch // that was submitted last

	inputs  *nn.Inputs
	losses  *nn.TokenLosses
	dropout *nn.Dropout // nil without dropout
	// recomputation is nil if all results are kept.
	recomputation   *nn.Recomputation
	recomputedShare float64
	access          exclusive.Access
}

// A Batch is the input of a [Graph]: rows of equal length, one after the other.
type Batch struct {
	Tokens      []int32   // what the model sees
	Targets     []int32   // the next token of each token
	LossWeights []float32 // weight of each token's loss; 0 leaves it out. nil: 1/n each
	// Starts has, for each token, the index in its row of its sample's first token. Samples that share a row do not
	// attend to each other, and the positions of each begin at 0. nil: each row is one sample.
	Starts []int32
	// Hidden has, for each token, the interval [from, to) of indices in its row that it does not attend to, if
	// several answers continue one prompt: a later answer does not see the answers between the prompt and itself,
	// and its positions continue the prompt's. Each answer begins with the last token of the prompt, so that its
	// first token has a target of its own. An empty interval hides nothing; nil means no intervals.
	Hidden [][2]int32
	// Samples has, for each target, the number of the sample that it counts for, from 0, see [Batch.LogProbs];
	// graphs do not use it. nil: all count for sample 0.
	Samples []int32
	// Noise seeds dropout and NEFTune.
	Noise Noise
	// Taught has, with Options.Teacher, the TopK most likely next tokens of each token by the teacher, and Probs TopK+1
	// probabilities of each token: for each of these tokens, then for all other tokens together. A token without loss may have any
	// values.
	Taught []int32
	Probs  []float32
}

// New builds the graph of a model for an engine, which must stay open as long as the graph. Nothing is allocated
// before the first Compute.
func New(m *model.Model, e *device.Engine, o Options) (*Graph, error) {
	if err := m.CheckEngine(e, o.Adapters); err != nil {
		return nil, err
	}
	if err := o.check(m); err != nil {
		return nil, err
	}
	copies, release, err := o.Copies.Use("lossgraph.New", m, e, o.ComputeType)
	if err != nil {
		return nil, err
	}
	defer release()
	lowerings, err := e.Lowerings(device.Use{Compute: o.ComputeType})
	if err != nil {
		return nil, err
	}
	l, err := newGraph(m, e, o, lowerings, copies, nil)
	if err != nil || !o.Checkpoint {
		return l, err
	}
	l.recomputedShare = 1
	kept, share := l.recomputation.Worth(o.Keep)
	if len(kept) == 0 {
		return l, nil
	}
	l.Close()
	if l, err = newGraph(m, e, o, lowerings, copies, kept); err == nil {
		l.recomputedShare = share
	}
	return l, err
}

// newGraph builds the graph with results of layers that are not recomputed.
func newGraph(m *model.Model, e *device.Engine, o Options, lowerings nn.Lowerings, copies nn.Copies, keep []nn.KeptResult) (*Graph, error) {
	c := ggml.NewContext()
	l := &Graph{
		Graph: c.NewGraph(), m: m, ctx: c, engine: e, length: o.Length, batch: o.Batch, packed: o.Packed, branched: o.Branched, topK: o.Teacher.topK(),
		workspace: o.Workspace, shared: o.Workspace != nil, inputs: nn.NewInputs(c),
	}
	if o.Checkpoint {
		l.recomputation = &nn.Recomputation{Keep: keep}
	}
	t := &nn.Tape{C: c, Graph: l.Graph, Recompute: l.recomputation, Lowering: lowerings(nn.NoLayer, ""), Layers: lowerings, Inputs: l.inputs, Grads: o.Grads, Copies: copies}
	l.build(t, o)
	err := c.Err()
	if err == nil && len(o.Hooks) > 0 {
		err = l.addHooks(o.Hooks)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return l, nil
}

func (l *Graph) build(t *nn.Tape, o Options) {
	n, c := int64(o.Length*o.Batch), l.m.Config()
	if o.Dropout > 0 {
		pairs, width := o.dropped()
		l.dropout = t.NewDropout(n, width, pairs, o.Dropout)
	}
	t.Adapters, t.Dropout = nn.AdaptersOf(o.Adapters), l.dropout
	b := &arch.Builder{
		Architecture: l.m.Architecture(), Source: l.m.Weight,
		NumTokens: n, Rows: int64(o.Batch), Packed: o.Packed, Branched: o.Branched, NEFTune: o.NEFTune, Context: cmp.Or(o.Context, o.Length),
		Only: o.Layers, LayerHook: o.LayerHook,
	}
	if o.Grads != nil {
		b.Chunk = int64(cmp.Or(o.FeedForwardChunk, usualChunk))
	}
	chunk := max(1, min(cmp.Or(o.LogitsChunk, usualChunk), o.Length*o.Batch, math.MaxInt32/c.Vocab))
	loss := nn.LossOptions{Chunk: int64(chunk), Into: o.Losses, Teacher: o.Teacher.options(), CrossEntropyInto: o.CrossEntropy, Factors: l.factors(o.Slopes)}
	l.losses = t.Loss(b.Hidden(t), loss, b.Logits)
	t.Backward()
}

func (l *Graph) checkMade() error {
	switch {
	case l == nil:
		return errors.New("the loss graph is nil")
	case l.ctx == nil:
		return fmt.Errorf("the loss graph is a zero value; New makes one: %w", ggml.ErrZeroValue)
	}
	return nil
}

// acquire locks the graph for a call.
func (l *Graph) acquire(method string) error {
	if err := l.checkMade(); err != nil {
		return err
	}
	return l.access.Acquire(method, "Graph")
}

// Close frees the graph. It fails only while another call uses it.
func (l *Graph) Close() error {
	if l == nil {
		return nil
	}
	if err := l.access.Acquire("Graph.Close", "Graph"); err != nil {
		return err
	}
	defer l.access.Release()
	if !l.shared {
		l.workspace.Close()
	}
	return l.ctx.Close()
}

// Compute runs the batch through the graph. It returns the loss of each token, −log p(target) in nats or, with
// Options.Teacher, the divergence from it, and adds Σ weight·∂loss/∂parameter to the gradient accumulators, if the graph has any.
func (l *Graph) Compute(ctx context.Context, b Batch) ([]float32, error) {
	if err := l.acquire("Graph.Compute"); err != nil {
		return nil, err
	}
	defer l.access.Release()
	if err := l.submit(ctx, b); err != nil {
		return nil, err
	}
	return l.losses.Losses()
}

// Submit is Compute without reading the losses. The same submission then computes other graphs, as
// [device.Workspace.ComputeThen] does: ones that continue from the gradients and from Options.Losses.
func (l *Graph) Submit(ctx context.Context, b Batch, then ...device.Work) error {
	if err := l.acquire("Graph.Submit"); err != nil {
		return err
	}
	defer l.access.Release()
	return l.submit(ctx, b, then...)
}

func (l *Graph) submit(ctx context.Context, b Batch, then ...device.Work) error {
	if err := l.check(b); err != nil {
		return err
	}
	if err := l.allocate(); err != nil {
		return err
	}
	if err := l.inputs.Fill(l.feed(b)); err != nil {
		return err
	}
	l.computing = b
	return l.workspace.ComputeThen(ctx, l.Graph, then...)
}

// CrossEntropy returns −log p(target), in nats, of each token of the last computed batch. Without Options.Teacher it is
// what Compute returns.
func (l *Graph) CrossEntropy() ([]float32, error) {
	if err := l.acquire("Graph.CrossEntropy"); err != nil {
		return nil, err
	}
	defer l.access.Release()
	if l.topK == 0 {
		return l.losses.Losses()
	}
	return l.losses.CrossEntropy()
}

// Predictions returns the most probable next token for each token of the last computed batch. The graph must have no
// gradients.
func (l *Graph) Predictions() ([]int32, error) {
	if err := l.acquire("Graph.Predictions"); err != nil {
		return nil, err
	}
	defer l.access.Release()
	return l.losses.Likeliest()
}

// Allocate allocates the graph unless it is allocated: in memory of its own, or in the memory of the workspace's
// previous graph. Compute calls it if needed.
func (l *Graph) Allocate() error {
	if err := l.acquire("Graph.Allocate"); err != nil {
		return err
	}
	defer l.access.Release()
	return l.allocate()
}

func (l *Graph) allocate() error {
	if l.workspace == nil {
		var err error
		if l.workspace, err = l.engine.NewWorkspace(); err != nil {
			return err
		}
	}
	return l.workspace.Allocate(l.Graph)
}

// Measure returns the sizes that Allocate would allocate. Tensors outside of the graph do not count: weights,
// adapters and gradient accumulators.
func (l *Graph) Measure() (layout.Sizes, error) {
	if err := l.checkMade(); err != nil {
		return nil, err
	}
	w, err := l.engine.NewWorkspace()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.Measure(l.Graph)
}

// Recomputed returns the memory that the results which the backward pass recomputes would take if they were kept, of each
// and all before it, in the order in which Options.Keep admits them.
func (l *Graph) Recomputed() (sums []int64) {
	var sum int64
	for _, r := range l.recomputation.Results() {
		sum += r.Bytes
		sums = append(sums, sum)
	}
	return sums
}

// RecomputedShare returns the share of the work of layers' forward pass that the backward pass repeats: 0 if all results
// are kept, 1 if none.
func (l *Graph) RecomputedShare() float64 { return l.recomputedShare }

// Memory returns the sizes of the workspace, once the graph is allocated.
func (l *Graph) Memory() layout.Sizes { return l.workspace.Sizes() }

func (l *Graph) check(b Batch) error {
	n := l.length * l.batch
	if len(b.Tokens) != n || len(b.Targets) != n || b.LossWeights != nil && len(b.LossWeights) != n {
		return fmt.Errorf("the batch has %d tokens, %d targets and %d weights; the graph takes %d, %d and %d", len(b.Tokens), len(b.Targets), len(b.LossWeights), n, n, n)
	}
	for i := range n {
		if t := b.Tokens[i]; t < 0 || int(t) >= l.m.Config().Vocab {
			return fmt.Errorf("token %d of the batch is %d; the vocabulary has %d", i, t, l.m.Config().Vocab)
		}
	}
	if err := l.checkTargets(b); err != nil {
		return err
	}
	if ids := b.Noise.Rows; ids != nil && len(ids) != l.batch {
		return fmt.Errorf("the noise of the batch has %d row ids; the graph takes %d", len(ids), l.batch)
	}
	if err := l.checkStarts(b.Starts); err != nil {
		return err
	}
	return l.checkHidden(b)
}

func (l *Graph) checkTargets(b Batch) error {
	c := l.m.Config()
	from, to := c.ImageTokens()
	for i, t := range b.Targets {
		if t < 0 || int(t) >= c.Vocab {
			return fmt.Errorf("target %d of the batch is %d; the vocabulary has %d", i, t, c.Vocab)
		}
		if isTrained := b.LossWeights == nil || b.LossWeights[i] != 0; isTrained && int(t) >= from && int(t) < to {
			return fmt.Errorf("target %d of the batch is token %d; the model hides the tokens %d to %d of images, so it cannot learn to say them", i, t, from, to-1)
		}
	}
	return l.checkTaught(b)
}

func (l *Graph) checkStarts(starts []int32) error {
	switch {
	case starts == nil:
		return nil
	case !l.packed:
		return errors.New("the batch packs several samples in a row; build the graph with Packed")
	case len(starts) != l.length*l.batch:
		return fmt.Errorf("the batch has %d sample starts; the graph takes %d", len(starts), l.length*l.batch)
	}
	for i, start := range starts {
		own := int32(i % l.length)
		if start != own && (own == 0 || start != starts[i-1]) {
			return fmt.Errorf("token %d of row %d belongs to a sample that starts at %d; it must start at %d, or where the sample of the previous token starts", own, i/l.length, start, own)
		}
	}
	return nil
}

func (l *Graph) checkHidden(b Batch) error {
	switch {
	case b.Hidden == nil:
		return nil
	case !l.branched:
		return errors.New("the batch has samples with several ends; build the graph with Branched")
	case b.Starts == nil || len(b.Hidden) != len(b.Starts):
		return fmt.Errorf("the batch has %d hidden intervals and %d sample starts; the graph takes %d of each", len(b.Hidden), len(b.Starts), l.length*l.batch)
	}
	for i, hidden := range b.Hidden {
		if !b.branches(i, int32(i%l.length)) {
			return fmt.Errorf("token %d of row %d has the hidden interval %v; it must be empty, equal to the previous token's interval, or end at the token itself and begin after a token of its sample that hides nothing", i%l.length, i/l.length, hidden)
		}
	}
	return nil
}

// branches reports whether the hidden interval of token i, at index inRow of its row, is valid: empty before any
// branch, equal to the previous token's, or at the beginning of a branch.
func (b *Batch) branches(i int, inRow int32) bool {
	isFirst, from, to := inRow == b.Starts[i], b.Hidden[i][0], b.Hidden[i][1]
	switch {
	case isFirst || from == to:
		return from == to && (isFirst || b.hidesNothing(i-1))
	case b.Hidden[i] == b.Hidden[i-1]:
		return true
	}
	return to == inRow && from > b.Starts[i] && from < to && b.hidesNothing(i-int(inRow-from)-1)
}

func (b *Batch) hidesNothing(i int) bool { return b.Hidden[i][0] == b.Hidden[i][1] }

// feed returns the values of the graph's inputs.
func (l *Graph) feed(b Batch) *nn.Feed {
	n := l.length * l.batch
	f := &nn.Feed{Rows: l.batch, Tokens: b.Tokens, Starts: b.Starts, Hidden: b.Hidden, Targets: b.Targets, Taught: b.Taught, Probs: b.Probs, Weights: b.LossWeights, Noise: nn.Noise(b.Noise)}
	if f.Starts == nil {
		f.Starts = make([]int32, n)
	}
	if f.Weights == nil {
		f.Weights = slices.Repeat([]float32{1 / float32(n)}, n)
	}
	f.Positions = make([]int32, n)
	for i := range f.Positions {
		f.Positions[i] = int32(i%l.length) - f.Starts[i]
		if f.Hidden != nil {
			f.Positions[i] -= f.Hidden[i][1] - f.Hidden[i][0]
		}
	}
	return f
}
