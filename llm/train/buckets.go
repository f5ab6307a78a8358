package train

import (
	"cmp"
	"context"
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// bucketGraphs holds graphs of a few lengths that share the memory of the longest. A batch of short
// rows uses a short graph, with the same result.
type bucketGraphs struct {
	m         *model.Model
	engine    *device.Engine
	options   lossgraph.Options
	shape     batchShape
	lengths   []int // of the graphs, in descending order
	graphs    []*lossgraph.Graph
	workspace *device.Workspace // nil if it belongs to other graphs
	last      *lossgraph.Graph
}

// newBucketGraphs builds the longest graph. The others are built on first use.
func newBucketGraphs(m *model.Model, e *device.Engine, s batchShape, o lossgraph.Options) (*bucketGraphs, error) {
	o.Batch, o.Packed, o.Branched, o.Context, o.Teacher = s.rows, s.packed, s.branched, max(1, s.longest), s.teacher.options()
	g := &bucketGraphs{m: m, engine: e, options: o, shape: s, lengths: bucketLengths(s.length, s.longestRow)}
	g.graphs = make([]*lossgraph.Graph, len(g.lengths))
	if o.Workspace == nil {
		var err error
		if g.workspace, err = e.NewWorkspace(); err != nil {
			return nil, err
		}
		g.options.Workspace = g.workspace
	}
	if _, err := g.graph(0); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// bucketLengths returns graph lengths in two steps per octave, down to an eighth of the longest row.
// So a graph has at most half as many tokens again as its rows, and there are few graphs.
func bucketLengths(length, longest int) []int {
	const least, multiple = 32, 8
	var list []int
	top := roundUp(max(1, longest), multiple)
	for _, sixteenths := range []int{16, 12, 8, 6, 4, 3, 2} {
		n := min(length, max(least, roundUp((top*sixteenths+15)/16, multiple)))
		if len(list) == 0 || n < list[len(list)-1] {
			list = append(list, n)
		}
	}
	return list
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }

// bucket returns the index of the shortest graph for rows of that many tokens.
func (g *bucketGraphs) bucket(tokens int) int {
	i, found := slices.BinarySearchFunc(g.lengths, tokens, func(length, tokens int) int { return cmp.Compare(tokens, length) })
	if found {
		return i
	}
	return max(0, i-1)
}

func (g *bucketGraphs) graph(i int) (*lossgraph.Graph, error) {
	if g.graphs[i] == nil {
		o := g.options
		o.Length = g.lengths[i]
		graph, err := lossgraph.New(g.m, g.engine, o)
		if err != nil {
			return nil, err
		}
		g.graphs[i] = graph
	}
	return g.graphs[i], nil
}

// batches splits rows, which should be sorted by descending length, into batches for the shortest graph
// that fits. Missing rows of the last batch are empty.
func (g *bucketGraphs) batches(rows []data.Row) (list []lossgraph.Batch, err error) {
	for few := range slices.Chunk(rows, g.options.Batch) {
		tokens := 0
		for _, row := range few {
			tokens = max(tokens, g.shape.tokensOf(row))
		}
		b, err := g.shape.batch(few, g.lengths[g.bucket(tokens)])
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}

// Compute computes a batch as [lossgraph.Graph] does.
func (g *bucketGraphs) Compute(ctx context.Context, b lossgraph.Batch) ([]float32, error) {
	graph, err := g.of(b)
	if err != nil {
		return nil, err
	}
	return graph.Compute(ctx, b)
}

// Submit submits a batch as [lossgraph.Graph] does.
func (g *bucketGraphs) Submit(ctx context.Context, b lossgraph.Batch, then ...device.Work) error {
	graph, err := g.of(b)
	if err != nil {
		return err
	}
	return graph.Submit(ctx, b, then...)
}

// of returns the graph for a batch.
func (g *bucketGraphs) of(b lossgraph.Batch) (*lossgraph.Graph, error) {
	if g.last == nil { // allocate for the longest graph, so that the memory does not grow later
		if err := g.graphs[0].Allocate(); err != nil {
			return nil, err
		}
	}
	graph, err := g.graph(g.bucket(len(b.Tokens) / g.options.Batch))
	if err == nil {
		g.last = graph
	}
	return graph, err
}

// CrossEntropy returns the cross-entropy of the tokens of the batch that was computed last.
func (g *bucketGraphs) CrossEntropy() ([]float32, error) { return g.last.CrossEntropy() }

// Predictions returns the predictions of the batch that was computed last.
func (g *bucketGraphs) Predictions() ([]int32, error) { return g.last.Predictions() }

// Measure returns the memory of the longest graph, which all graphs share, without allocating it.
func (g *bucketGraphs) Measure() (layout.Sizes, error) { return g.graphs[0].Measure() }

// Memory returns the sizes of the results; all graphs share this memory.
func (g *bucketGraphs) Memory() layout.Sizes { return g.workspace.Sizes() }

// Close frees the graphs. It never fails.
func (g *bucketGraphs) Close() error {
	if g == nil {
		return nil
	}
	for _, graph := range g.graphs {
		if graph != nil {
			graph.Close()
		}
	}
	return g.workspace.Close()
}
