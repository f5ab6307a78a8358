package nn

import (
	"fmt"

	"github.com/goggml/ggml"
)

// ShortConv is the convolution of each channel of x [m, n] with a kernel [taps, m], over a token and
// each step-th token before it in its sample: Σ kernel[taps−1−j] · x[i−j·step]. Shifts are lookups of rows, and so are
// their gradients.
func (t *Tape) ShortConv(x *Value, kernel *ggml.Tensor, step int) *Value {
	c := t.C
	taps := kernelTaps(c, kernel)
	y := &Value{
		T:         weightedSum(c, taps, func(j int) *ggml.Tensor { return t.shifted(x.T, j*step) }),
		needsGrad: x.needsGrad || t.Trains(kernel),
	}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulate(kernel, func() *ggml.Tensor {
			var all *ggml.Tensor // [m, taps]
			for j, tap := range taps {
				d := c.Reshape(SumColumns.Build(t, SumOperands{c.Mul(dy, t.shifted(x.T, j*step)), tap}), tap.Dim(0), 1)
				if all != nil {
					d = c.Concat(d, all, 1)
				}
				all = d
			}
			return c.Reshape(transposed(c, all), kernel.Shape()...)
		})
		t.flow(x, func() *ggml.Tensor {
			return weightedSum(c, taps, func(j int) *ggml.Tensor { return t.shifted(dy, -j*step) })
		})
	})
	return y
}

// ConvolveValid is ShortConv of the last n of x [m, (taps−1)·step+n, rows], each row of which has what came
// before → [m, n·rows]. It has no gradient.
func (t *Tape) ConvolveValid(x, kernel *ggml.Tensor, step int) *Value {
	c, taps := t.C, kernelTaps(t.C, kernel)
	before := int64((len(taps) - 1) * step)
	m, n, rows := x.Dim(0), x.Dim(1)-before, x.Dim(2)
	sum := weightedSum(c, taps, func(j int) *ggml.Tensor {
		return c.View(x, []int64{m, n, rows}, []int64{x.Stride(1), x.Stride(2)}, (before-int64(j*step))*x.Stride(1))
	})
	return Input(c.Reshape(sum, m, n*rows))
}

// weightedSum is Σ tap · x of each tap.
func weightedSum(c *ggml.Context, taps []*ggml.Tensor, x func(j int) *ggml.Tensor) (sum *ggml.Tensor) {
	for j, tap := range taps {
		sum = added(c, sum, c.Mul(x(j), tap))
	}
	return sum
}

// kernelTaps are the columns [m] of a kernel [taps, m] by the distance of what they multiply.
func kernelTaps(c *ggml.Context, kernel *ggml.Tensor) []*ggml.Tensor {
	n, m := kernel.Dim(0), kernel.NumElements()/max(1, kernel.Dim(0))
	columns := transposed(c, c.Reshape(kernel, n, m))
	taps := make([]*ggml.Tensor, n)
	for j := range taps {
		taps[j] = c.View(columns, []int64{m}, nil, (n-1-int64(j))*columns.Stride(1))
	}
	return taps
}

// shifted returns, for each token of x [m, n], the token by positions before it in its sample, or
// after it if by is negative; zeros outside of the sample.
func (t *Tape) shifted(x *ggml.Tensor, by int) *ggml.Tensor {
	if by == 0 {
		return x
	}
	n := x.Dim(1)
	from := func(f *Feed, i int) (int, bool) {
		later := max(i, i-by) // of both tokens
		return i - by, later < len(f.Positions) && int(f.Positions[later]) >= max(by, -by)
	}
	ids := Declare(t.Inputs, fmt.Sprintf("tokens %d before", by), ggml.I32, []int64{n}, func(f *Feed, ids []int32) {
		for i := range ids {
			if j, ok := from(f, i); ok {
				ids[i] = int32(j)
			}
		}
	})
	there := Declare(t.Inputs, fmt.Sprintf("whether there are tokens %d before", by), ggml.F32, []int64{1, n}, func(f *Feed, there []float32) {
		for i := range there {
			if _, ok := from(f, i); ok {
				there[i] = 1
			}
		}
	})
	return t.C.Mul(t.C.GetRows(contiguous(t.C, x), ids), there)
}
