package train

import (
	"context"
	"errors"

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
	if err := d.Check(t.m.Vocab); err != nil {
		return 0, err
	}
	rows := min(t.options.Batch, len(d.Samples))
	g, err := t.m.NewLossGraph(model.TrainGraphOptions{Length: d.Length, Batch: rows, Adapters: adapters})
	if err != nil {
		return 0, err
	}
	defer g.Close()
	var sum, total float64
	for from := 0; from < len(d.Samples); from += rows {
		samples := append([]data.Sample(nil), d.Samples[from:min(len(d.Samples), from+rows)]...)
		for len(samples) < rows {
			samples = append(samples, data.Sample{})
		}
		b := makeBatch(samples, d.Length)
		losses, err := g.Compute(ctx, t.engine, b)
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
