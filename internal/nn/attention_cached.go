package nn

import "github.com/goggml/ggml"

// CachedOperands are queries [size, n, heads, slots] and the keys and values of a cache, [size, keys, kv heads, slots].
type CachedOperands struct {
	Q, K, V *ggml.Tensor
	ggml.AttentionOptions
}

// CachedAttention is attention to a cache, [size, heads, n, slots], without gradients. The plain form is two matrix
// products, with all scores in memory at once.
var CachedAttention = &Op[CachedOperands, *ggml.Tensor]{func(t *Tape, o CachedOperands) *ggml.Tensor {
	c, v := t.C, o.V
	scores := c.MulMat(o.K, o.Q).SetAccPrecision(ggml.PrecisionF32) // [keys, n, heads, slots]
	if o.Softcap != 0 {
		scores, o.Scale = c.Tanh(c.Scale(scores, o.Scale/o.Softcap)), o.Softcap
	}
	weights := c.SoftMaxExt(scores, ggml.SoftMaxOptions{Mask: o.Mask, Scale: o.Scale, MaxBias: o.MaxBias, Sinks: o.Sinks})
	if v.Type() != ggml.F32 {
		v = c.Cast(v, ggml.F32)
	}
	return byToken(c, mulMat(c, transposed(c, v), weights))
}}

// flashAttention is a row for devices whose flash attention takes the heads and types. Sums are in F32.
var flashAttention = CachedAttention.When(func(t *Tape, o CachedOperands) bool {
	return t.Lowering.Supports == nil || t.Lowering.Supports(flash(t, o))
}, flash)

func flash(t *Tape, o CachedOperands) *ggml.Tensor {
	return t.C.FlashAttention(o.Q, o.K, o.V, o.AttentionOptions).SetAccPrecision(ggml.PrecisionF32)
}
