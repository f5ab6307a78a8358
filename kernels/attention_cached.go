package kernels

// #include "attention_cached.h"
import "C"

import (
	"math"
	"unsafe"

	"github.com/goggml/ggml"
)

var cachedAttention = &ggml.NativeOp{
	Name: "cached_attention", Func: unsafe.Pointer(C.kern_op_cached_attention),
	FLOPs: func(y shape, operands []shape) float64 {
		q, k := operands[0], operands[1]
		return 2 * float64(k[1]) * (elements(q) + elements(y))
	},
}

// CachedAttention is attention to the keys and values of a cache, some of which a mask hides:
//
//	softmax(Scale · Q·Kᵀ + Mask)·V → [value size, heads, n, batch]
//
// Q is F32 [size, n, heads, batch]; K [size, keys, groups, batch] and V [value size, keys, groups, batch] have any float or
// quantised type; heads/groups heads share the keys and values of a group. The mask is F16 [keys, n, 1, batch], −∞ for
// hidden keys. All have contiguous rows. [ggml.Context.FlashAttention] has the same options. A query that sees no key
// gets zeros.
//
// It is FlashAttention for many queries, with all products and sums in F32. Only the scores of a block of queries and a
// tile of keys exist at a time, and keys that no query of a block sees cost nothing.
//
// With a [GEMMLibrary] it is an op of the CPU backend, whose results do not depend on the number of threads; otherwise it is
// FlashAttention. It has no backward for [ggml.Graph.Backward].
func CachedAttention(c *ggml.Context, q, k, v *ggml.Tensor, o ggml.AttentionOptions) *ggml.Tensor {
	all := operands{q, k, v, o.Mask}
	sinks := all.addOptional(o.Sinks)
	return c.BuildOp(cachedAttention.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		if o.Scale == 0 {
			o.Scale = float32(1 / math.Sqrt(float64(q.Dim(0))))
		}
		requireLibrary(b)
		requireCached(b, q, k, v, o.Mask)
		requireScores(b, o.Scale, ScoreOptions{Softcap: o.Softcap, MaxBias: o.MaxBias, Sinks: o.Sinks}, q.Dim(2))
		switch {
		case !b.OK():
			return nil
		case !hasLibrary():
			return b.Compose(func() *ggml.Tensor {
				o.Mask = c.Cont(o.Mask)
				return c.FlashAttention(q, k, v, o).SetAccPrecision(ggml.PrecisionF32)
			})
		}
		p := params(C.struct_kern_cached_params{scale: C.float(o.Scale), softcap: C.float(o.Softcap), max_bias: C.float(o.MaxBias), sinks: sinks})
		return b.Native(cachedAttention, p, ggml.F32, v.Dim(0), q.Dim(2), q.Dim(1), q.Dim(3))
	})
}

func requireCached(b *ggml.OpBuilder, q, k, v, mask *ggml.Tensor) {
	b.RequireType("Q", q, ggml.F32)
	requireNumeric(b, "K", k)
	requireNumeric(b, "V", v)
	b.RequireType("mask", mask, ggml.F16)
	for i, x := range []*ggml.Tensor{q, k, v, mask} {
		what := []string{"Q", "K", "V", "mask"}[i]
		b.RequireContiguousRows(what, x)
		ok := x.Dim(1) == 1 || x.Stride(1) >= x.Type().RowSize(x.Dim(0)) && x.Stride(1)/x.Type().BlockBytes() <= math.MaxInt32
		b.Require(ok, "rows of %s are %d bytes apart, which is less than a row or too much", what, x.Stride(1))
	}
	b.Require(q.Dim(0) == k.Dim(0), "ne0 of Q and K must be equal: %d and %d", q.Dim(0), k.Dim(0))
	b.Require(k.Dim(1) == v.Dim(1) && k.Dim(2) == v.Dim(2) && k.Dim(3) == v.Dim(3), "K and V must be equal but in ne0")
	b.Require(q.Dim(3) == k.Dim(3), "ne3 of Q and K must be equal: %d and %d", q.Dim(3), k.Dim(3))
	b.Require(q.Dim(2)%k.Dim(2) == 0, "ne2 of Q must be a multiple of ne2 of K: they are %d and %d", q.Dim(2), k.Dim(2))
	want := [4]int64{k.Dim(1), q.Dim(1), 1, q.Dim(3)}
	b.Require(shapeOf(mask) == want, "the mask must be [keys, n, 1, batch] of K and Q, %v", want)
	b.Require(max(q.Dim(0), q.Dim(1), v.Dim(0)*q.Dim(2)) <= math.MaxInt32, "a dimension is above %d", math.MaxInt32)
	const queries = 128 // per block
	requireChunks(b, float64(q.Dim(2))*float64(q.Dim(3))*(float64(q.Dim(1))/queries+1))
}
