package model

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// A keeper holds the inputs of checkpoints [m, n] until the backward pass.
type keeper struct {
	c        *ggml.Context
	g        *ggml.Graph
	products ggml.Type // of the pass
	inputs   int64     // number of them
	rests    *ggml.Tensor
	used     int64
}

// keep keeps x: rounded to BF16 where products round it anyway, else as good as it
// is.
func (k *keeper) keep(x *ggml.Tensor) (restore func() *ggml.Tensor) {
	switch {
	case k.products == ggml.BF16:
		half := kernels.CastBF16(k.c, x)
		k.g.Expand(half)
		return func() *ggml.Tensor { return k.c.Cast(half, ggml.F32) }
	case x.Dim(0)%ggml.Q8_0.BlockSize() == 0:
		return k.keepParts(x)
	}
	return func() *ggml.Tensor { return x }
}

// keepParts keeps x in three quarters of its memory, to 18 bits of the largest value
// of a block or of 0.01: in F16, and what that leaves in 8 bits. The scales are powers
// of two, which round nothing. They let x be as large as four million, and lift what
// is left of small values to where the scale of a block, in F16 too, is exact.
func (k *keeper) keepParts(x *ggml.Tensor) (restore func() *ggml.Tensor) {
	const large, small = 1 << 6, 1.0 / (1 << 12)
	c := k.c
	half := c.Cast(c.Scale(x, 1.0/large), ggml.F16)
	rounded := func() *ggml.Tensor { return c.ScaleInPlace(c.Cast(half, ggml.F32), large) }
	rest := c.Copy(c.ScaleInPlace(c.Sub(x, rounded()), 1/small), k.nextRest(x))
	k.g.Expand(rest)
	return func() *ggml.Tensor {
		return c.AddInPlace(rounded(), c.ScaleInPlace(c.Cast(rest, ggml.F32), small))
	}
}

// nextRest is where what rounding leaves of x goes. It is one tensor for all inputs:
// tensors of that size between the others, which are larger, would leave gaps that
// nothing fits in.
func (k *keeper) nextRest(x *ggml.Tensor) *ggml.Tensor {
	m, n := x.Dim(0), x.Dim(1)
	if k.rests == nil {
		k.rests = k.c.NewTensor(ggml.Q8_0, m, n, k.inputs)
	}
	at := k.used * k.rests.Stride(2)
	k.used++
	return k.c.View(k.rests, []int64{m, n}, nil, at)
}
