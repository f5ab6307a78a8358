package nn

import (
	"fmt"

	"github.com/goggml/ggml"
)

// A Convolution multiplies each channel over a token and each step-th token before it in its sample:
// bias + Σ kernel[taps−1−j] · x[i−j·step].
type Convolution struct {
	Kernel *ggml.Tensor // [taps, m]
	Bias   *ggml.Tensor // [m]; nil: none
	Step   int          // distance of the taps in tokens
	SiLU   bool         // the result is y · σ(y) of the sum y
}

// ConvOperands are the operands of [ShortConv].
type ConvOperands struct {
	Convolution
	X      *ggml.Tensor // [m, n], or [m, n, rows] with the tokens before the first of each row
	Before *ggml.Tensor // [m, b, rows]; nil: none
}

// ShortConv computes y [m, n], or [m, n·rows], and the gradient of X where no tokens precede.
var ShortConv = &Op[ConvOperands, Result[*ggml.Tensor]]{func(t *Tape, o ConvOperands) Result[*ggml.Tensor] {
	c, taps := t.C, kernelTaps(t.C, o.Kernel)
	if o.Before != nil {
		o.X = c.Concat(o.Before, o.X, 1)
	}
	sum := addBias(c, weightedSum(c, taps, func(j int) *ggml.Tensor { return o.tap(t, j) }), o.Bias)
	y := sum
	if o.SiLU {
		y = c.Silu(sum)
	}
	y = c.Reshape(y, o.X.Dim(0), y.NumElements()/max(1, o.X.Dim(0)))
	return Result[*ggml.Tensor]{y, func(dy *ggml.Tensor) *ggml.Tensor {
		if o.SiLU {
			dy = c.Mul(dy, activationSlope(c, ggml.SwiGLU, sum))
		}
		return weightedSum(c, taps, func(j int) *ggml.Tensor { return t.shifted(dy, -j*o.Step) })
	}}
}}

// tap is what tap j of a kernel multiplies.
func (o ConvOperands) tap(t *Tape, j int) *ggml.Tensor {
	x, back := o.X, j*o.Step
	if o.Before == nil {
		return t.shifted(x, back)
	}
	before := o.Before.Dim(1)
	return t.C.View(x, []int64{x.Dim(0), x.Dim(1) - before, x.Dim(2)}, []int64{x.Stride(1), x.Stride(2)}, (before-int64(back))*x.Stride(1))
}

// ShortConv convolves x [m, n]. A kernel and a bias that are trained have gradients of their own.
func (t *Tape) ShortConv(x *Value, v Convolution) *Value {
	trains, whole := t.Trains(v.Kernel) || t.Trains(v.Bias), v
	if trains {
		v.Bias, v.SiLU = nil, false
	}
	made := ShortConv.Build(t, ConvOperands{Convolution: v, X: x.T})
	y := &Value{T: made.Y, needsGrad: x.needsGrad || trains}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulate(v.Kernel, func() *ggml.Tensor { return t.kernelGrad(v, x.T, dy) })
		t.flow(x, func() *ggml.Tensor { return made.Grad(dy) })
	})
	if !trains {
		return y
	}
	if y = t.AddWeight(y, whole.Bias); whole.SiLU {
		y = t.SiLU(y)
	}
	return y
}

// kernelGrad is the gradient of a kernel: for each tap, the sum of dy · x over the tokens.
func (t *Tape) kernelGrad(v Convolution, x, dy *ggml.Tensor) *ggml.Tensor {
	c := t.C
	var all *ggml.Tensor // [m, taps]
	for j, tap := range kernelTaps(c, v.Kernel) {
		d := c.Reshape(SumColumns.Build(t, SumOperands{c.Mul(dy, t.shifted(x, j*v.Step)), tap}), tap.Dim(0), 1)
		if all != nil {
			d = c.Concat(d, all, 1)
		}
		all = d
	}
	return c.Reshape(transposed(c, all), v.Kernel.Shape()...)
}

// ConvolveAfter convolves x [m, n, rows] after the (taps−1)·step tokens before each row, [m, (taps−1)·step, rows], or nil if there
// are none → [m, n·rows]. It has no gradient.
func (t *Tape) ConvolveAfter(before, x *ggml.Tensor, v Convolution) *Value {
	return Input(ShortConv.Build(t, ConvOperands{Convolution: v, X: x, Before: before}).Y)
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
