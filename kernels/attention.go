package kernels

// #include "attention.h"
// #include "softmax.h"
import "C"

import (
	"math"
	"unsafe"

	"github.com/goggml/ggml"
)

// Attention are the operands of [CausalAttention], for sequences that begin at position 0;
// heads/groups heads share the keys and values of a group. All are F32 with contiguous rows.
type Attention struct {
	Q     *ggml.Tensor // [size, heads, n, batch]
	K, V  *ggml.Tensor // [size, groups, n, batch]
	Scale float32      // factor of Q·Kᵀ
	// FirstVisible I32 [n, batch], with contiguous rows, is the first key that each query sees: the
	// start of a sliding window, or of a sample in a packed sequence. Values are clamped to 0 and
	// the query's position. nil means 0 for all.
	FirstVisible *ggml.Tensor
	// HiddenFrom and HiddenTo, of the same kind, are the bounds of the keys [from, to) that each
	// query skips, such as another answer to its prompt. They are clamped to the first visible key
	// and the query's position. For ALiBi, the keys before them are nearer by their number. Both are
	// nil for none.
	HiddenFrom, HiddenTo *ggml.Tensor
	Scores               ScoreOptions
}

// ScoreOptions change scores, in this order, before the softmax. The zero value changes nothing.
type ScoreOptions struct {
	// Softcap limits scores to ±Softcap: they become Softcap · tanh(score / Softcap). 0 means no
	// limit.
	Softcap float32
	// MaxBias is the largest slope of ALiBi (arXiv 2108.12409), as in [ggml.SoftMaxOptions]: a
	// score is lowered by the distance from key to query times the slope of the head. 0 means no
	// ALiBi.
	MaxBias float32
	// Sinks F32 [heads], contiguous, are one more score per head, which counts only in the sum of
	// the softmax (arXiv 2309.17453). nil means no sinks.
	Sinks *ggml.Tensor
}

// operands returns the operands present, after the given ones, and the parameters with their
// indices.
func (a Attention) operands(first ...*ggml.Tensor) (operands, C.struct_kern_attention_params) {
	all := operands(first)
	all.add(a.Q, a.K, a.V)
	return all, C.struct_kern_attention_params{
		scale: C.float(a.Scale), softcap: C.float(a.Scores.Softcap), max_bias: C.float(a.Scores.MaxBias),
		first_visible: all.addOptional(a.FirstVisible), hidden: all.addOptional(a.HiddenFrom, a.HiddenTo), sinks: all.addOptional(a.Scores.Sinks),
	}
}

var (
	causalAttention = &ggml.NativeOp{
		Name: "causal_attention", Func: unsafe.Pointer(C.kern_op_causal_attention),
		FLOPs: func(_ shape, operands []shape) float64 { return 2 * causalFLOPs(operands[0]) },
	}
	causalAttentionGrad = &ggml.NativeOp{
		Name: "causal_attention_grad", Func: unsafe.Pointer(C.kern_op_causal_attention_grad),
		FLOPs: func(_ shape, operands []shape) float64 { return 5 * causalFLOPs(operands[1]) },
	}
	causalSoftMax = &ggml.NativeOp{Name: "causal_softmax", Func: unsafe.Pointer(C.kern_op_causal_softmax)}
)

// causalFLOPs returns the FLOPs of the product of each query with all keys up to its position. With
// bounds this is an upper bound, because the visible keys are data.
func causalFLOPs(q shape) float64 { return elements(q) * float64(q[2]+1) }

// CausalAttention is the attention of each token to itself and earlier tokens:
//
//	softmax(Scale · Q·Kᵀ)·V over the keys from FirstVisible up to the query's position, but those hidden → [size, heads, n, batch]
//
// [ScoreOptions] change the scores, Scale · Q·Kᵀ, before the softmax.
//
// Only the scores of a block of queries exist at a time: memory is linear in n. Keys that no query
// of a block sees cost nothing.
//
// With a [GEMMLibrary] it is an op of the CPU backend, whose results do not depend on the number of
// threads; otherwise it is composed of MulMat and softmax. It has no backward for
// [ggml.Graph.Backward]; [CausalAttentionGrad] returns the gradients.
func CausalAttention(c *ggml.Context, a Attention) *ggml.Tensor {
	q := a.Q
	all, p := a.operands()
	return c.BuildOp(causalAttention.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireAttention(b, a)
		switch {
		case !b.OK():
			return nil
		case !hasLibrary():
			return b.Compose(func() *ggml.Tensor { return attendInBlocks(c, a) })
		}
		return b.Native(causalAttention, params(p), ggml.F32, q.Dim(0), q.Dim(1), q.Dim(2), q.Dim(3))
	})
}

// CausalAttentionGrad returns the gradients of Q, K, V and Sinks in [CausalAttention], given the
// gradient dY [size, heads, n, batch] of the result, F32 with contiguous rows. The gradients are
// contiguous and have the shapes of their operands; without Sinks dsinks is nil. They have no
// backward.
func CausalAttentionGrad(c *ggml.Context, dy *ggml.Tensor, a Attention) (dq, dk, dv, dsinks *ggml.Tensor) {
	parts := int64(0)
	operands, p := a.operands(dy)
	all := c.BuildOp(causalAttentionGrad.Name, operands, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireAttention(b, a)
		requireVectors(b, "dY", dy)
		b.RequireSameShape(dy, a.Q)
		switch {
		case !b.OK():
			return nil
		case !hasLibrary():
			parts = 1
			return b.Compose(func() *ggml.Tensor { return attendGradInBlocks(c, dy, a) })
		}
		parts = attentionParts(a.Q, a.K)
		p.parts = C.int32_t(parts)
		return b.Native(causalAttentionGrad, params(p), ggml.F32, a.gradElements(parts))
	})
	return a.splitGrads(c, all, parts)
}

// gradElements returns the number of elements of all gradients, with parts of K's and V's.
func (a Attention) gradElements(parts int64) int64 {
	return a.Q.NumElements() + 2*parts*a.K.NumElements() + a.Q.Dim(1)*a.Q.Dim(3)
}

// splitGrads returns the gradients in the result of an op, or the poisoned tensor of an op that failed, without parts.
func (a Attention) splitGrads(c *ggml.Context, all *ggml.Tensor, parts int64) (dq, dk, dv, dsinks *ggml.Tensor) {
	q, k := a.Q, a.K
	if parts == 0 {
		return all, all, all, all
	}
	keys := q.NumElements()
	values := keys + parts*k.NumElements()
	if a.Scores.Sinks != nil {
		each := c.View(all, []int64{q.Dim(1), q.Dim(3)}, nil, (values+parts*k.NumElements())*ggml.F32.BlockBytes())
		dsinks = c.RepeatBack(each, a.Scores.Sinks)
	}
	return c.View(all, q.Shape(), nil, 0), addParts(c, all, k, keys, parts), addParts(c, all, a.V, values, parts), dsinks
}

// addParts sums parts of x, each of the shape of like, stored one after another from an element on.
func addParts(c *ggml.Context, x, like *ggml.Tensor, from, parts int64) *ggml.Tensor {
	part := func(i int64) *ggml.Tensor {
		return c.View(x, like.Shape(), nil, (from+i*like.NumElements())*ggml.F32.BlockBytes())
	}
	sum := part(0)
	for i := int64(1); i < parts; i++ {
		sum = c.Add(sum, part(i))
	}
	return sum
}

// attentionParts returns the number of parts into which the heads of a group are divided, to give
// several threads work.
func attentionParts(q, k *ggml.Tensor) int64 {
	const chunks = 16
	each := q.Dim(1) / k.Dim(1)
	for parts := int64(1); parts < each; parts++ {
		if each%parts == 0 && parts*k.Dim(1)*q.Dim(3) >= chunks {
			return parts
		}
	}
	return each
}

func requireAttention(b *ggml.OpBuilder, a Attention) {
	requireLibrary(b)
	q, k := a.Q, a.K
	requireVectors(b, "Q", q)
	requireVectors(b, "K", k)
	requireVectors(b, "V", a.V)
	b.RequireSameShape(k, a.V)
	b.Require(q.Dim(0) == k.Dim(0) && q.Dim(2) == k.Dim(2) && q.Dim(3) == k.Dim(3), "Q and K must be equal but in ne1")
	b.Require(q.Dim(1)%k.Dim(1) == 0, "ne1 of Q must be a multiple of ne1 of K: they are %d and %d", q.Dim(1), k.Dim(1))
	b.Require(max(q.Dim(0)*q.Dim(1), q.Dim(2)) <= math.MaxInt32, "a dimension is above %d", math.MaxInt32)
	const queries = 64 // per block
	requireChunks(b, float64(q.Dim(1))*float64(q.Dim(3))*(float64(q.Dim(2))/queries+1))
	requireScores(b, a.Scale, a.Scores, q.Dim(1))
	b.Require((a.HiddenFrom == nil) == (a.HiddenTo == nil), "HiddenFrom and HiddenTo belong together: set both or none")
	requireBound(b, "FirstVisible", a.FirstVisible, q.Dim(2), q.Dim(3))
	requireBound(b, "HiddenFrom", a.HiddenFrom, q.Dim(2), q.Dim(3))
	requireBound(b, "HiddenTo", a.HiddenTo, q.Dim(2), q.Dim(3))
}

// requireBound requires a key for each of n queries, if x is present.
func requireBound(b *ggml.OpBuilder, name string, x *ggml.Tensor, n, batch int64) {
	if x == nil {
		return
	}
	b.RequireType(name, x, ggml.I32)
	b.RequireContiguousRows(name, x)
	want := [4]int64{n, batch, 1, 1}
	b.Require(shapeOf(x) == want, "%s must be [n, batch] of Q, %v", name, want)
}

// requireScores requires valid options of the scores of heads, and a valid scale.
func requireScores(b *ggml.OpBuilder, scale float32, o ScoreOptions, heads int64) {
	b.Require(scale > 0 && scale <= math.MaxFloat32, "the scale is %v; it must be above 0 and finite", scale)
	b.Require(o.Softcap >= 0 && o.Softcap <= math.MaxFloat32, "Softcap is %v; it must not be negative, and finite", o.Softcap)
	b.Require(o.MaxBias >= 0 && o.MaxBias <= math.MaxFloat32, "MaxBias is %v; it must not be negative, and finite", o.MaxBias)
	if o.Sinks != nil {
		requireF32(b, "Sinks", o.Sinks)
		b.Require(shapeOf(o.Sinks) == [4]int64{heads, 1, 1, 1}, "Sinks must have one element for each of the %d heads", heads)
	}
}

// requireVectors requires contiguous rows, and that the vectors of different tokens do not overlap.
func requireVectors(b *ggml.OpBuilder, what string, x *ggml.Tensor) {
	b.RequireType(what, x, ggml.F32)
	b.RequireContiguousRows(what, x)
	stride := x.Stride(2)
	ok := x.Dim(2) == 1 || stride >= x.Type().RowSize(x.Dim(0)) && stride/ggml.F32.BlockBytes() <= math.MaxInt32
	b.Require(ok, "tokens of %s are %d bytes apart, which is less than a row or too much", what, stride)
}

// causalSoftMaxInPlace replaces the scores of causal attention by weights, and returns a view of
// them. a [keys, queries, heads, batch] is F32 and contiguous; query i is at position + i, and sees
// the keys from its first visible key up to its position:
//
//	softmax(scale · a) over the keys that a query sees, 0 for the others
//
// The bounds of visible keys and the options of scores are as in an [Attention]; bounds have an element for each position, and
// scores must be capped already. It is
// [ggml.Context.SoftMaxExtInPlace] without a mask in memory.
func causalSoftMaxInPlace(c *ggml.Context, a *ggml.Tensor, of Attention, scale float32, position int) *ggml.Tensor {
	all, o := operands{a}, of.Scores
	p := C.struct_kern_softmax_params{
		scale: C.float(scale), max_bias: C.float(o.MaxBias), position: C.int32_t(position),
		first_visible: all.addOptional(of.FirstVisible), hidden: all.addOptional(of.HiddenFrom, of.HiddenTo), sinks: all.addOptional(o.Sinks),
	}
	return c.BuildOp(causalSoftMax.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		b.RequireType("a", a, ggml.F32)
		b.RequireContiguous("a", a)
		requireScores(b, scale, o, a.Dim(2))
		b.Require(position >= 0 && position <= math.MaxInt32, "the first query is at position %d; it must be 0 to %d", position, math.MaxInt32)
		if first := of.FirstVisible; first != nil {
			b.Require(first.Dim(0) >= int64(position)+a.Dim(1), "FirstVisible has %d queries, and the last one is at position %d", first.Dim(0), int64(position)+a.Dim(1)-1)
			requireBound(b, "FirstVisible", first, first.Dim(0), a.Dim(3))
		}
		if !b.OK() {
			return nil
		}
		return b.NativeInPlace(causalSoftMax, params(p))
	})
}
