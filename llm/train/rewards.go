package train

import (
	"context"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/parallel"
)

// Rewards say how a loss of preferences judges pairs of samples.
type Rewards struct {
	Chosen, Rejected float64 // mean reward of the preferred samples, and of the others; NaN if there are none
	Accuracy         float64 // fraction of pairs whose preferred sample has the larger reward, or of samples judged rightly
	KL               float64 // estimated KL divergence from the reference per sample, nats, of a loss that estimates it
}

// Margin returns how much larger the mean reward of preferred samples is.
func (r Rewards) Margin() float64 { return r.Chosen - r.Rejected }

// evaluateLoss measures held-out rows by Options.Loss.
func (t *Trainer) evaluateLoss(ctx context.Context, adapters model.Adapters, d *data.Dataset) (Evaluation, error) {
	rows, err := t.evaluator.LogProbs(ctx, adapters, d)
	if err != nil {
		return Evaluation{}, err
	}
	var e Evaluation
	var samples []data.Sample
	var logProbs []float64
	for i, sums := range rows {
		row, err := d.Row(i)
		if err != nil {
			return Evaluation{}, err
		}
		for _, s := range row {
			e.Tokens += s.Targets()
		}
		samples, logProbs = append(samples, row...), append(logProbs, sums...)
	}
	if e.Loss, _, err = t.options.Loss.compute(samples, logProbs); err != nil {
		return Evaluation{}, err
	}
	rewards := t.options.Loss.Rewards(samples, logProbs)
	e.Rewards, e.Accuracy = &rewards, rewards.Accuracy
	return e, nil
}

// LogProbs returns, for each row of a data set, the log-probabilities of its samples: Σ weight · log p(target), see
// [github.com/goggml/ggml/llm/lossgraph.Batch.LogProbs]. They depend on the number of processes and on Batch only by
// rounding.
func (e *Evaluator) LogProbs(ctx context.Context, adapters model.Adapters, d *data.Dataset) ([][]float64, error) {
	if err := e.checkOpen(); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, errNoContext
	}
	if err := e.access.Acquire("Evaluator.LogProbs", "Evaluator"); err != nil {
		return nil, err
	}
	defer e.access.Release()
	g := parallel.OrAlone(e.options.Group)
	if err := parallel.AgreeOn(ctx, g, d.Check(e.m.Config().Vocab), nil, parallel.Shared{Name: "the number of rows", Value: d.Len()}); err != nil {
		return nil, err
	}
	firsts := make([]int, d.Len()+1) // number of each row's first sample
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return nil, err
		}
		firsts[i+1] = firsts[i] + len(row)
	}
	all := make([]float64, firsts[d.Len()])
	err := e.eachBatch(ctx, g, adapters, d, true, func(graph *bucketGraphs, numbers []int, rows []data.Row) error {
		b := graph.batches(rows)[0]
		losses, err := graph.Compute(ctx, b)
		if err != nil {
			return err
		}
		sums, err := b.LogProbs(losses)
		if err != nil {
			return err
		}
		for i, row := range rows {
			for j, s := range row {
				if s.Predicted() > 0 {
					all[firsts[numbers[i]]+j], sums = sums[0], sums[1:]
				}
			}
		}
		return nil
	})
	if err := parallel.Agree(ctx, g, err, all); err != nil {
		return nil, err
	}
	list := make([][]float64, d.Len())
	for i := range list {
		list[i] = all[firsts[i]:firsts[i+1]]
	}
	return list, nil
}
