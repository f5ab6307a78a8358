package train

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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
	samples, logProbs, err := t.evaluator.SampleLogProbs(ctx, adapters, d)
	if err != nil {
		return Evaluation{}, err
	}
	var e Evaluation
	for _, s := range samples {
		e.Tokens += s.Targets()
	}
	if e.Loss, _, err = t.options.Loss.compute(samples, logProbs); err != nil {
		return Evaluation{}, err
	}
	rewards := t.options.Loss.Rewards(samples, logProbs)
	e.Rewards, e.Accuracy = &rewards, rewards.Accuracy
	return e, nil
}

// LogProbs returns, for each of these rows of a data set, or for all without any, the log-probabilities of its samples:
// Σ weight · log p(target), see [github.com/goggml/ggml/llm/lossgraph.Batch.LogProbs]. They depend on the other rows, on
// the number of processes and on Batch only by rounding.
func (e *Evaluator) LogProbs(ctx context.Context, adapters model.Adapters, d *data.Dataset, rows ...int) ([][]float64, error) {
	if len(rows) == 0 {
		rows = allRows(d)
	}
	return e.logProbs(ctx, "Evaluator.LogProbs", adapters, d, batchesOf{d.Row, rows}, nil)
}

// SampleLogProbs returns all samples of a data set, and their log-probabilities as LogProbs does. It reads each row once.
func (e *Evaluator) SampleLogProbs(ctx context.Context, adapters model.Adapters, d *data.Dataset) (samples []data.Sample, logProbs []float64, err error) {
	var rows []data.Row
	for i := range d.Len() {
		row, readErr := d.Row(i)
		if err = readErr; err != nil {
			break
		}
		rows, samples = append(rows, row), append(samples, row...)
	}
	of := batchesOf{func(i int) (data.Row, error) { return rows[i], nil }, allRows(d)}
	sums, err := e.logProbs(ctx, "Evaluator.SampleLogProbs", adapters, d, of, err)
	return samples, slices.Concat(sums...), err
}

// logProbs returns the log-probabilities of rows, unless some process of the group has an error.
func (e *Evaluator) logProbs(ctx context.Context, name string, adapters model.Adapters, d *data.Dataset, of batchesOf, err error) ([][]float64, error) {
	if err := e.checkOpen(); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, errNoContext
	}
	if err := e.access.Acquire(name, "Evaluator"); err != nil {
		return nil, err
	}
	defer e.access.Release()
	g, rows := parallel.OrAlone(e.options.Group), of.rows
	err = cmp.Or(err, d.Check(e.m.Config().Vocab))
	firsts, samples := map[int]int{}, 0 // number of each row's first sample
	for _, i := range rows {
		if i < 0 || i >= d.Len() {
			err = fmt.Errorf("there is no row %d: the data set has %d", i, d.Len())
			break
		}
		firsts[i], samples = samples, samples+d.SamplesIn(i)
	}
	if err := parallel.AgreeOn(ctx, g, err, nil, parallel.Shared{Name: "the number of rows", Value: len(rows)}); err != nil {
		return nil, err
	}
	all := make([]float64, samples)
	err = e.eachBatch(ctx, g, adapters, d, of, measured{numbered: true}, func(graph *bucketGraphs, numbers []int, rows []data.Row) error {
		batches, err := graph.batches(rows)
		if err != nil {
			return err
		}
		b := batches[0]
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
	list := make([][]float64, len(rows))
	for k, i := range rows {
		list[k] = all[firsts[i] : firsts[i]+d.SamplesIn(i)]
	}
	return list, nil
}
