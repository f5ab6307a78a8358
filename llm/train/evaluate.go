package train

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
)

// An Evaluation is how well held-out data is predicted after a step; step 0 is the start.
type Evaluation struct {
	Step     int     // after which it was made
	Loss     float64 // mean cross-entropy of the tokens, nats
	Accuracy float64 // share of the tokens that are the model's most probable ones
	Tokens   int     // whose weight is not 0; 0 in checkpoints of before there was an Accuracy
}

// Perplexity is e to the Loss.
func (e Evaluation) Perplexity() float64 { return math.Exp(e.Loss) }

// Evaluate computes the loss and the accuracy of a data set, with the adapters as they are.
// The weights of tokens count in the loss; in the accuracy they decide which tokens do.
func (t *Trainer) Evaluate(ctx context.Context, d *data.Dataset) (Evaluation, error) {
	if err := t.checkOpen(); err != nil {
		return Evaluation{}, err
	}
	return t.EvaluateWith(ctx, t.adapters, d)
}

// EvaluateWith is Evaluate with other adapters, or none.
func (t *Trainer) EvaluateWith(ctx context.Context, adapters model.Adapters, d *data.Dataset) (Evaluation, error) {
	if err := t.checkOpen(); err != nil {
		return Evaluation{}, err
	}
	if err := d.Check(t.m.Config().Vocab); err != nil {
		return Evaluation{}, err
	}
	count := min(t.options.Batch, d.Len())
	graph, err := t.evalGraph(adapters, d, count)
	if err != nil {
		return Evaluation{}, err
	}
	var sums evalSums
	for numbers := range slices.Chunk(longestFirst(d), count) {
		rows, err := readRows(d, len(numbers), func(i int) int { return numbers[i] })
		if err == nil {
			err = sums.add(ctx, graph, graph.batches(rows)[0])
		}
		if err != nil {
			return Evaluation{}, err
		}
	}
	if sums.tokens == 0 {
		return Evaluation{}, errors.New("no token of the data set is trained")
	}
	return Evaluation{
		Step: t.step, Loss: sums.loss / sums.weight, Accuracy: float64(sums.correct) / float64(sums.tokens), Tokens: sums.tokens,
	}, nil
}

// longestFirst lists the rows of a data set by falling length, so that batches have rows of
// similar ones.
func longestFirst(d *data.Dataset) []int {
	rows := make([]int, d.Len())
	for i := range rows {
		rows[i] = i
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(d.Predicted(b), d.Predicted(a)) })
	return rows
}

// evalSums are sums over the tokens of an evaluation whose weight is not 0.
type evalSums struct {
	loss, weight    float64 // of weight times loss; of weights
	correct, tokens int
}

func (s *evalSums) add(ctx context.Context, g *bucketGraphs, b model.Batch) error {
	losses, err := g.Compute(ctx, b)
	if err != nil {
		return err
	}
	predictions, err := g.Predictions()
	if err != nil {
		return err
	}
	for i, l := range losses {
		w := float64(b.LossWeights[i])
		if w == 0 {
			continue
		}
		s.loss += w * float64(l)
		s.weight += w
		if predictions[i] == b.Targets[i] {
			s.correct++
		}
	}
	s.tokens += numTrained(b)
	return nil
}

// numTrained counts the tokens whose weight is not 0.
func numTrained(batches ...model.Batch) int {
	n := 0
	for _, b := range batches {
		for _, w := range b.LossWeights {
			if w != 0 {
				n++
			}
		}
	}
	return n
}

// An evalGraph computes losses without gradients. It is kept with its memory for the
// next evaluation of its kind.
type evalGraph struct {
	adapters model.Adapters
	shape    batchShape
	graph    *bucketGraphs
}

// maxEvalGraphs is the number of graphs that are kept: those of the held-out data with
// and without the adapter, of what is saved, and one more.
const maxEvalGraphs = 4

func (t *Trainer) evalGraph(adapters model.Adapters, d *data.Dataset, rows int) (*bucketGraphs, error) {
	shape := shapeOfBatches(d, rows)
	at := slices.IndexFunc(t.evals, func(e *evalGraph) bool {
		return e.shape == shape && maps.EqualFunc(e.adapters, adapters, slices.Equal)
	})
	if at >= 0 {
		e := t.evals[at]
		t.evals = slices.Insert(slices.Delete(t.evals, at, at+1), 0, e)
		return e.graph, nil
	}
	graph, err := newBucketGraphs(t.m, t.engine, shape, model.TrainGraphOptions{Adapters: adapters})
	if err != nil {
		return nil, err
	}
	t.evals = slices.Insert(t.evals, 0, &evalGraph{maps.Clone(adapters), shape, graph})
	if len(t.evals) > maxEvalGraphs {
		t.evals[maxEvalGraphs].graph.Close()
		t.evals = t.evals[:maxEvalGraphs]
	}
	return graph, nil
}
