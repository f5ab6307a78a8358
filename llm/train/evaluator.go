package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/parallel"
)

// EvaluatorOptions are the settings of an [Evaluator]; the zero value has the usual ones.
type EvaluatorOptions struct {
	// Engine computes, in the model's layout. If it is nil, the evaluator creates one with Threads threads
	// (0 means [ggml.DefaultThreads]), which Close closes.
	Engine  *device.Engine
	Threads int
	Batch   int // rows computed together; 0 means about 512 tokens
	// ComputeType is the type of products with the weights, see [lossgraph.Options]. ggml.F32, the zero value, makes
	// results comparable between machines.
	ComputeType ggml.Type
	Group       parallel.Group // processes that share the rows; nil means this process alone
}

// An Evaluator measures how well held-out data is predicted. It is used by one goroutine. Close it before the model.
type Evaluator struct {
	m       *model.Model
	options EvaluatorOptions
	engine  *device.Engine
	graphs  []*evalGraph // most recently used first
	closed  bool
	access  exclusive.Access

	numbered      *data.Dataset // of numberedShape
	numberedShape batchShape
}

// Group returns the processes that share the rows.
func (e *Evaluator) Group() parallel.Group {
	if e == nil {
		return parallel.OrAlone(nil)
	}
	return parallel.OrAlone(e.options.Group)
}

// NewEvaluator returns an evaluator of a model.
func NewEvaluator(m *model.Model, o EvaluatorOptions) (*Evaluator, error) {
	if err := m.CheckOpen(); err != nil {
		return nil, err
	}
	if err := CheckModel(m); err != nil {
		return nil, err
	}
	if o.Batch < 0 {
		return nil, fmt.Errorf("a batch of %d rows is empty", o.Batch)
	}
	if err := parallel.CheckRank(o.Group); err != nil {
		return nil, err
	}
	e := &Evaluator{m: m, options: o, engine: o.Engine}
	if e.engine == nil {
		var err error
		if e.engine, err = device.New(device.Options{Layout: m.Layout(), Threads: o.Threads}); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// CheckModel returns an error if a model can be neither trained nor evaluated because it is not
// causal: its tokens attend to the tokens that they should predict.
func CheckModel(m *model.Model) error {
	if err := m.CheckOpen(); err != nil {
		return err
	}
	if err := m.Architecture().CheckLogits("it has no next-token loss, and training on pairs of texts is unsupported"); err != nil {
		return err
	}
	return m.Architecture().CheckCausal("it sees the token that it would have to predict; training and evaluation by diffusion are unsupported")
}

func (e *Evaluator) checkOpen() error {
	switch {
	case e == nil:
		return errors.New("the evaluator is nil")
	case e.m == nil:
		return fmt.Errorf("the evaluator is a zero value; NewEvaluator makes one: %w", ggml.ErrZeroValue)
	case e.closed:
		return fmt.Errorf("evaluator: %w", ggml.ErrClosed)
	}
	return e.m.CheckOpen()
}

// Close frees the evaluator; the model stays open. It fails only while another call uses the evaluator.
func (e *Evaluator) Close() error {
	if e == nil {
		return nil
	}
	if err := e.access.Acquire("Evaluator.Close", "Evaluator"); err != nil {
		return err
	}
	defer e.access.Release()
	e.closed = true
	for _, g := range e.graphs {
		g.graph.Close()
	}
	e.graphs = nil
	if e.options.Engine != nil {
		return nil
	}
	return e.engine.Close()
}

// Memory returns the sizes of evaluation results; their graphs are cached.
func (e *Evaluator) Memory() layout.Sizes {
	var sizes layout.Sizes
	if e != nil {
		for _, g := range e.graphs {
			sizes = sizes.Plus(g.graph.Memory())
		}
	}
	return sizes
}

// Evaluate returns the loss and accuracy of a data set, for the model with adapters or none. Token
// weights scale the loss; in the accuracy, tokens with nonzero weight count equally. The result
// depends on the number of processes and on Batch only by the rounding of the losses.
func (e *Evaluator) Evaluate(ctx context.Context, adapters model.Adapters, d *data.Dataset) (Evaluation, error) {
	rows, err := e.EvaluateRows(ctx, adapters, d)
	if err != nil {
		return Evaluation{}, err
	}
	return Total(rows)
}

// EvaluateRows is like Evaluate, but returns the sums of each row in the order of the data set, for
// [Compare]. They are 0 for a row without a trained token.
func (e *Evaluator) EvaluateRows(ctx context.Context, adapters model.Adapters, d *data.Dataset) ([]RowEvaluation, error) {
	if err := e.checkOpen(); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, errNoContext
	}
	if err := e.access.Acquire("Evaluator.EvaluateRows", "Evaluator"); err != nil {
		return nil, err
	}
	defer e.access.Release()
	return e.evaluateRows(ctx, parallel.OrAlone(e.options.Group), adapters, d, nil)
}

// evaluateRows measures cross-entropy or, with a teacher, the divergence from it.
func (e *Evaluator) evaluateRows(ctx context.Context, g parallel.Group, adapters model.Adapters, d *data.Dataset, teacher *Teacher) ([]RowEvaluation, error) {
	err := d.Check(e.m.Config().Vocab)
	if err := parallel.AgreeOn(ctx, g, err, nil, parallel.Shared{Name: "the number of held-out rows", Value: d.Len()}); err != nil {
		return nil, err
	}
	rows := make([]RowEvaluation, d.Len())
	err = e.addShare(ctx, g, adapters, d, teacher, rows)
	var all []float64
	for _, r := range rows {
		all = append(all, r.Loss, r.Weight, float64(r.Correct), float64(r.Tokens), r.CrossEntropy)
	}
	if err := parallel.Agree(ctx, g, err, all); err != nil {
		return nil, err
	}
	for i := range rows {
		sums := all[5*i:]
		rows[i] = RowEvaluation{Loss: sums[0], Weight: sums[1], Correct: int(sums[2]), Tokens: int(sums[3]), CrossEntropy: sums[4]}
	}
	return rows, nil
}

// addShare measures the process's share.
func (e *Evaluator) addShare(ctx context.Context, g parallel.Group, adapters model.Adapters, d *data.Dataset, teacher *Teacher, sums []RowEvaluation) error {
	return e.eachBatch(ctx, g, adapters, d, batchesOf{d.Row, allRows(d)}, measured{teacher: teacher}, func(graph *bucketGraphs, numbers []int, rows []data.Row) error {
		batches, err := graph.batches(rows)
		if err != nil {
			return err
		}
		own, err := measure(ctx, graph, batches[0], teacher)
		if err != nil {
			return err
		}
		for i, number := range numbers {
			sums[number] = own[i]
		}
		return nil
	})
}

// batchesOf are the numbers of rows, and the function that reads one.
type batchesOf struct {
	read func(row int) (data.Row, error)
	rows []int
}

// eachBatch calls f for batches of the process's share of some rows, every n-th for n processes, with their numbers.
func (e *Evaluator) eachBatch(ctx context.Context, g parallel.Group, adapters model.Adapters, d *data.Dataset, of batchesOf, what measured, f func(graph *bucketGraphs, numbers []int, rows []data.Row) error) error {
	graph, err := e.graph(adapters, d, what)
	if err != nil {
		return err
	}
	var share []int
	for i, number := range longestFirst(d, of.rows) {
		if i%g.Size() == g.Rank() {
			share = append(share, number)
		}
	}
	for numbers := range slices.Chunk(share, max(1, graph.shape.rows)) {
		rows := make([]data.Row, len(numbers))
		for i, number := range numbers {
			if rows[i], err = of.read(number); err != nil {
				return err
			}
		}
		if err := f(graph, numbers, rows); err != nil {
			return err
		}
	}
	return nil
}

// batchTokens is the number of tokens computed together by default: enough for products at full speed,
// in little memory.
const batchTokens = 512

// shape returns the shape of the batches of a data set.
func (e *Evaluator) shape(d *data.Dataset, what measured) (s batchShape, err error) {
	if what.numbered && e.numbered == d && d != nil {
		return e.numberedShape, nil
	}
	s = shapeOfBatches(d, 0)
	if s.teacher, s.numbered = what.teacher, what.numbered; s.numbered {
		if s, err = s.sharing(e.m.Architecture(), d); err != nil {
			return s, err
		}
	}
	if s.rows = e.options.Batch; s.rows == 0 {
		s.rows = max(1, batchTokens/max(1, s.longestRow))
	}
	if s.rows = min(s.rows, d.Len()); s.numbered {
		e.numbered, e.numberedShape = d, s
	}
	return s, nil
}

func allRows(d *data.Dataset) []int {
	rows := make([]int, d.Len())
	for i := range rows {
		rows[i] = i
	}
	return rows
}

// longestFirst returns rows by descending length, so that the rows of a batch have similar lengths.
func longestFirst(d *data.Dataset, rows []int) []int {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(d.Predicted(b), d.Predicted(a)) })
	return rows
}

// measure computes a batch and returns the sums of each row. With a teacher, their losses are the divergence alone.
func measure(ctx context.Context, g *bucketGraphs, b lossgraph.Batch, teacher *Teacher) ([]RowEvaluation, error) {
	losses, err := g.Compute(ctx, b)
	if err != nil {
		return nil, err
	}
	predictions, err := g.Predictions()
	if err != nil {
		return nil, err
	}
	var entropy []float32
	if teacher != nil {
		if entropy, err = g.CrossEntropy(); err != nil {
			return nil, err
		}
	}
	rows := make([]RowEvaluation, g.options.Batch)
	length := len(losses) / len(rows)
	for i, l := range losses {
		w := float64(b.LossWeights[i])
		if w == 0 {
			continue
		}
		row := &rows[i/length]
		row.Loss += w * float64(l)
		if teacher != nil {
			row.Loss -= w * float64(teacher.CrossEntropy) * float64(entropy[i])
			row.CrossEntropy += w * float64(entropy[i])
		}
		row.Weight += w
		row.Tokens++
		if predictions[i] == b.Targets[i] {
			row.Correct++
		}
	}
	return rows, nil
}

// An evalGraph computes losses without gradients. It is cached, with its memory, for the next
// evaluation of its kind.
type evalGraph struct {
	adapters model.Adapters
	shape    batchShape
	graph    *bucketGraphs
}

// maxEvalGraphs is the maximum number of cached graphs: for held-out data with and without the
// adapter, for the check before saving, and one more.
const maxEvalGraphs = 4

// measured selects what the batches of an evaluation have.
type measured struct {
	numbered bool     // numbers of their samples
	teacher  *Teacher // what it says; nil if none
}

func (e *Evaluator) graph(adapters model.Adapters, d *data.Dataset, what measured) (*bucketGraphs, error) {
	shape, err := e.shape(d, what)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(e.graphs, func(g *evalGraph) bool {
		return g.shape == shape && maps.EqualFunc(g.adapters, adapters, slices.Equal)
	})
	if at >= 0 {
		g := e.graphs[at]
		e.graphs = slices.Insert(slices.Delete(e.graphs, at, at+1), 0, g)
		return g.graph, nil
	}
	graph, err := newBucketGraphs(e.m, e.engine, shape, lossgraph.Options{Adapters: adapters, ComputeType: e.options.ComputeType})
	if err != nil {
		return nil, err
	}
	e.graphs = slices.Insert(e.graphs, 0, &evalGraph{maps.Clone(adapters), shape, graph})
	if len(e.graphs) > maxEvalGraphs {
		e.graphs[maxEvalGraphs].graph.Close()
		e.graphs = e.graphs[:maxEvalGraphs]
	}
	return graph, nil
}
