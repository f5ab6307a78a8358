package train

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
)

// Evaluate gives the mean cross-entropy of a data set in nats a token, with
// the adapters as they are.
func (t *Trainer) Evaluate(ctx context.Context, d *data.Dataset) (float64, error) {
	return t.EvaluateWith(ctx, t.adapters, d)
}

// EvaluateWith is Evaluate with other adapters, or none.
func (t *Trainer) EvaluateWith(ctx context.Context, adapters model.Adapters, d *data.Dataset) (float64, error) {
	if err := t.checkOpen(); err != nil {
		return 0, err
	}
	if err := d.Check(t.m.Vocab); err != nil {
		return 0, err
	}
	count := min(t.options.Batch, d.Len())
	graph, err := t.evalGraph(adapters, d, count)
	if err != nil {
		return 0, err
	}
	var sum, total float64
	for from := 0; from < d.Len(); from += count {
		rows, err := readRows(d, min(count, d.Len()-from), func(i int) int { return from + i })
		if err != nil {
			return 0, err
		}
		b := makeBatch(rows, count, d.Length, d.IsPacked())
		losses, err := graph.Compute(ctx, b)
		if err != nil {
			return 0, err
		}
		for i, l := range losses {
			if w := float64(b.Weights[i]); w != 0 {
				sum += w * float64(l)
				total += w
			}
		}
	}
	if total == 0 {
		return 0, errors.New("the data set has no token to learn")
	}
	return sum / total, nil
}

// An evalGraph computes losses without gradients. It is kept with its memory for the
// next evaluation of its kind.
type evalGraph struct {
	adapters     model.Adapters
	length, rows int
	packed       bool
	graph        *model.LossGraph
}

// maxEvalGraphs is the number of graphs that are kept: those of the held-out data with
// and without the adapter, of what is saved, and one more.
const maxEvalGraphs = 4

func (t *Trainer) evalGraph(adapters model.Adapters, d *data.Dataset, rows int) (*model.LossGraph, error) {
	at := slices.IndexFunc(t.evals, func(e *evalGraph) bool {
		return e.length == d.Length && e.rows == rows && e.packed == d.IsPacked() && maps.EqualFunc(e.adapters, adapters, slices.Equal)
	})
	if at >= 0 {
		e := t.evals[at]
		t.evals = slices.Insert(slices.Delete(t.evals, at, at+1), 0, e)
		return e.graph, nil
	}
	graph, err := t.m.NewLossGraph(t.engine, model.TrainGraphOptions{Length: d.Length, Batch: rows, Packed: d.IsPacked(), Adapters: adapters})
	if err != nil {
		return nil, err
	}
	t.evals = slices.Insert(t.evals, 0, &evalGraph{maps.Clone(adapters), d.Length, rows, d.IsPacked(), graph})
	if len(t.evals) > maxEvalGraphs {
		t.evals[maxEvalGraphs].graph.Close()
		t.evals = t.evals[:maxEvalGraphs]
	}
	return graph, nil
}
