package train

import (
	"context"

	"github.com/goggml/ggml"
)

// damaged searches weights, such as the model's and untrained adapters', for NaN or infinity. It
// returns the tensor and the value, or nil. Reading everything back would take long, so devices sum
// the rows of matrices, and only rows with a non-finite sum are read.
func (t *Trainer) damaged(ctx context.Context, weights []*ggml.Tensor) (*ggml.Tensor, float32, error) {
	c := ggml.NewContext()
	defer c.Close()
	g, sums := c.NewGraph(), map[*ggml.Tensor]*ggml.Tensor{}
	for _, w := range weights {
		if !w.Type().CanDequantize() {
			continue
		}
		if w.NumRows() == 1 {
			if bad, found, err := nonFinite(w); found || err != nil {
				return w, bad, err
			}
			continue
		}
		ones := c.Repeat(c.ScaleBias(c.Arange(0, float32(w.Dim(0)), 1), 0, 1), w.Dim(0), 1, w.Dim(2), w.Dim(3))
		sums[w] = c.MulMat(w, ones).SetOutput()
		g.Expand(sums[w])
	}
	if len(sums) == 0 {
		return nil, 0, nil
	}
	if err := t.engine.Allocate(g); err != nil {
		return nil, 0, err
	}
	if err := t.engine.Compute(ctx, g); err != nil {
		return nil, 0, err
	}
	for _, w := range weights {
		if sums[w] == nil {
			continue
		}
		ofRows, err := ggml.Read[float32](sums[w])
		if err != nil {
			return nil, 0, err
		}
		for row, sum := range ofRows {
			if sum-sum == 0 {
				continue
			}
			if bad, found, err := nonFiniteRows(w, int64(row), 1); found || err != nil {
				return w, bad, err
			}
		}
	}
	return nil, 0, nil
}
