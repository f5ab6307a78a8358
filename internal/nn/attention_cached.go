package nn

import "github.com/goggml/ggml"

// CachedAttention is [ggml.Context.FlashAttention] of queries to what a cache has, with sums in F32. A device
// that lacks it for these heads and types multiplies, and has all scores at once. It has no gradients.
func (t *Tape) CachedAttention(q, k, v *ggml.Tensor, o ggml.AttentionOptions) *ggml.Tensor {
	y := t.C.FlashAttention(q, k, v, o).SetAccPrecision(ggml.PrecisionF32)
	if has := t.Lowering.Supports; has == nil || has(y) {
		return y
	}
	c := t.C
	scores := c.MulMat(k, q).SetAccPrecision(ggml.PrecisionF32) // [keys, n, heads, slots]
	if o.Softcap != 0 {
		scores, o.Scale = c.Tanh(c.Scale(scores, o.Scale/o.Softcap)), o.Softcap
	}
	weights := c.SoftMaxExt(scores, ggml.SoftMaxOptions{Mask: o.Mask, Scale: o.Scale, MaxBias: o.MaxBias, Sinks: o.Sinks})
	if v.Type() != ggml.F32 {
		v = c.Cast(v, ggml.F32)
	}
	return byToken(c, mulMat(c, transposed(c, v), weights))
}
