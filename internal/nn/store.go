package nn

import "github.com/goggml/ggml"

// An activationStore keeps the inputs of checkpoints [m, n] until the backward pass.
type activationStore map[*Lowering]*residuals

// residuals holds the rounding residuals of a lowering's inputs in one tensor: small tensors between
// large ones would leave gaps in memory.
type residuals struct {
	inputs, used int64
	all          *ggml.Tensor // [m, n, inputs]; nil before the first
}

// Keep keeps the input of a checkpoint [m, n] until the function restores it.
var Keep = &Op[*ggml.Tensor, func() *ggml.Tensor]{func(_ *Tape, x *ggml.Tensor) func() *ggml.Tensor {
	return func() *ggml.Tensor { return x }
}}

// KeepExact keeps inputs unchanged. KeepBF16 rounds them to BF16, as the products do anyway.
var KeepExact, KeepBF16 = Keep.By(Keep.Plain), Keep.By(keepBF16)

func keepBF16(t *Tape, x *ggml.Tensor) func() *ggml.Tensor {
	low := Cast.Build(t, x)
	if low.Type() != ggml.BF16 {
		low = t.C.Cast(x, ggml.BF16)
	}
	t.Graph.Expand(low)
	return func() *ggml.Tensor { return t.C.Cast(low, ggml.F32) }
}

// isOfBlocks reports whether keepCompressed takes x.
func isOfBlocks(_ *Tape, x *ggml.Tensor) bool { return x.Dim(0)%ggml.Q8_0.BlockSize() == 0 }

// keepCompressed keeps x in three quarters of its memory: in F16, with the rounding residual in
// 8 bits. The precision is 18 bits, relative to the largest value of a block or to 0.01. Scaling by
// powers of two adds no rounding; it admits values up to four million, and lifts the residuals of
// small values to where a block's scale, itself F16, is exact.
func keepCompressed(t *Tape, x *ggml.Tensor) (restore func() *ggml.Tensor) {
	const large, small = 1 << 6, 1.0 / (1 << 12)
	c := t.C
	low := c.Cast(c.Scale(x, 1.0/large), ggml.F16)
	rounded := func() *ggml.Tensor { return c.ScaleInPlace(c.Cast(low, ggml.F32), large) }
	residual := c.Copy(c.ScaleInPlace(c.Sub(x, rounded()), 1/small), t.nextResidual(x))
	t.Graph.Expand(residual)
	return func() *ggml.Tensor {
		return c.AddInPlace(rounded(), c.ScaleInPlace(c.Cast(residual, ggml.F32), small))
	}
}

// nextResidual returns the view that takes the rounding residual of x.
func (t *Tape) nextResidual(x *ggml.Tensor) *ggml.Tensor {
	m, n := x.Dim(0), x.Dim(1)
	r := t.store[t.Lowering]
	if r.all == nil {
		r.all = t.C.NewTensor(ggml.Q8_0, m, n, r.inputs)
	}
	at := r.used * r.all.Stride(2)
	r.used++
	return t.C.View(r.all, []int64{m, n}, nil, at)
}
