package ggml

// #include "csrc/goggml.h"
import "C"

import "math"

// SoftMax returns the softmax of each row. a is contiguous F32. C: ggml_soft_max.
func (c *Context) SoftMax(a *Tensor) *Tensor { return c.SoftMaxExt(a, SoftMaxOptions{}) }

// SoftMaxOptions are the settings of [Context.SoftMaxExt].
type SoftMaxOptions struct {
	// Mask [n, ≥ rows, m, b], F32 or F16 and contiguous, is 0 for visible keys and −∞ for masked
	// ones; heads and batch are multiples of m and b. nil means no mask.
	Mask *Tensor
	// Sinks [heads], contiguous F32, are attention sinks: one more logit per head, which counts in
	// the sum of the softmax but not in the result. nil means no sinks.
	Sinks *Tensor

	Scale   float32 // factor of a; 0 means 1
	MaxBias float32 // of ALiBi, which needs a mask; 0 means no ALiBi
}

// SoftMaxExt returns softmax(Scale · a + slope · Mask) of each row of a [n, rows, heads, batch].
// With MaxBias 0 the slope is 1, else ALiBi's slope of the head. a is contiguous F32. The backward
// requires MaxBias 0 and no Sinks. C: ggml_soft_max_ext, ggml_soft_max_add_sinks.
func (c *Context) SoftMaxExt(a *Tensor, o SoftMaxOptions) *Tensor {
	return c.softMax("soft_max_ext", a, o, false)
}

func (c *Context) softMax(name string, a *Tensor, o SoftMaxOptions, inPlace bool) *Tensor {
	op := c.begin(name, a)
	op.types("a", a, F32)
	op.contiguous("a", a)
	op.optional(o.Mask)
	op.types("mask", o.Mask, F32, F16)
	op.contiguous("mask", o.Mask)
	if op.arena != nil && o.Mask != nil {
		op.require(o.Mask.ne[0] == a.ne[0] && o.Mask.ne[1] >= a.ne[1], "the mask must have a's ne0, and at least its ne1")
		op.require(a.ne[2]%o.Mask.ne[2] == 0 && a.ne[3]%o.Mask.ne[3] == 0, "ne2 and ne3 of a must be multiples of ne2 and ne3 of the mask")
	}
	op.require(o.MaxBias == 0 || o.Mask != nil, "ALiBi needs a mask")
	op.sinks(o.Sinks, a.Dim(2))
	if o.Scale == 0 {
		o.Scale = 1
	}
	return op.done(C.goggml_op_soft_max_ext(op.arena, a.ptr(), o.Mask.ptr(), o.Sinks.ptr(), C.float(o.Scale), C.float(o.MaxBias), C.bool(inPlace)))
}

// sinks checks the attention sinks; nil is valid.
func (op *opCall) sinks(sinks *Tensor, heads int64) {
	op.optional(sinks)
	op.types("sinks", sinks, F32)
	op.contiguous("sinks", sinks)
	if op.arena != nil && sinks != nil {
		op.require(sinks.NumDims() == 1 && sinks.ne[0] == heads, "sinks must have an entry for each of the %d heads", heads)
	}
}

// SoftMaxBack returns the gradient of a in [Context.SoftMaxExt] with MaxBias
// 0 and no Sinks, given the gradient of the result and the result y. Both are
// contiguous F32 of one shape. It has no backward. C: ggml_soft_max_ext_back.
func (c *Context) SoftMaxBack(grad, y *Tensor, scale float32) *Tensor {
	op := c.softMaxBack("soft_max_ext_back", grad, y)
	return op.done(C.goggml_op_soft_max_ext_back(op.arena, grad.ptr(), y.ptr(), C.float(scale), 0))
}

func (c *Context) softMaxBack(name string, grad, y *Tensor) *opCall {
	op := c.begin(name, grad, y)
	op.types("grad", grad, F32)
	op.types("y", y, F32)
	op.sameShape(grad, y)
	op.canonicalStrides("grad", grad)
	op.canonicalStrides("y", y)
	return op
}

// AttentionOptions are the settings of [Context.FlashAttention].
type AttentionOptions struct {
	// Mask [kv, ≥ n, m, b], F16 and contiguous, is 0 for visible keys and −∞ for masked ones; heads
	// and batch of q are multiples of m and b. nil means no mask.
	Mask *Tensor
	// Sinks [heads], contiguous F32, are attention sinks, as in [SoftMaxOptions].
	Sinks *Tensor

	Scale   float32 // factor of q·k; 0 means 1/√d
	MaxBias float32 // of ALiBi, which needs a mask; 0 means no ALiBi
	Softcap float32 // replaces scores s by Softcap·tanh(s/Softcap); 0 means no cap
}

// FlashAttention returns softmax(Scale · q·k + Mask)·v without storing the scores:
//
//	q [d, n, heads, batch] (F32), k [d, kv, kv heads, batch],
//	v [e, kv, kv heads, batch] → [e, heads, n, batch], F32 (permuted)
//
// k and v each have a float or quantised type; the heads of a quantised one consist of whole
// blocks. It has no backward. C: ggml_flash_attn_ext, ggml_flash_attn_ext_add_sinks.
func (c *Context) FlashAttention(q, k, v *Tensor, o AttentionOptions) *Tensor {
	op := c.beginAttention("flash_attn_ext", o, q, k, v)
	if op.arena != nil {
		op.require(q.ne[3] == k.ne[3], "ne3 of q and k must be equal: %d and %d", q.ne[3], k.ne[3])
		op.attentionMask(q, o.Mask, k.ne[1])
	}
	return op.attend(q, k, v, nil, o)
}

// FlashAttentionRows is [Context.FlashAttention] in which each batch of q sees keys of its own, as
// sequences do that share a cache:
//
//	q [d, n, heads, batch] (F32), k [d, rows, kv heads], v [e, rows, kv heads],
//	seen [kv, batch] (I32) → [e, heads, n, batch], F32 (permuted)
//
// Key i of batch b is row seen[i, b] of k and v, from 0 to rows−1. The mask, which is required, is
// [kv, ≥ n, m, b]; it hides the keys with which shorter lists are filled up. It has no backward. C:
// ggml_flash_attn_ext_rows, ggml_flash_attn_ext_add_sinks.
func (c *Context) FlashAttentionRows(q, k, v, seen *Tensor, o AttentionOptions) *Tensor {
	seen = c.inRange(seen, k.Dim(1))
	op := c.beginAttention("flash_attn_ext_rows", o, q, k, v, seen)
	op.types("seen", seen, I32)
	op.contiguous("seen", seen)
	op.require(o.Mask != nil, "it needs a mask")
	if op.arena != nil {
		op.require(k.ne[3] == 1, "ne3 of k is %d; all batches share k and v", k.ne[3])
		op.require(seen.NumDims() <= 2 && seen.ne[1] == q.ne[3], "seen must be [kv, %d], a row for each batch of q", q.ne[3])
		op.attentionMask(q, o.Mask, seen.ne[0])
	}
	return op.attend(q, k, v, seen, o)
}

// beginAttention checks what attention to all rows and to some of them have in common.
func (c *Context) beginAttention(name string, o AttentionOptions, operands ...*Tensor) *opCall {
	op := c.begin(name, operands...)
	q, k, v := operands[0], operands[1], operands[2]
	op.types("q", q, F32)
	op.contiguousRows("q", q)
	op.contiguousRows("k", k)
	op.contiguousRows("v", v)
	op.optional(o.Mask)
	op.types("mask", o.Mask, F16)
	op.contiguous("mask", o.Mask)
	op.require(o.MaxBias == 0 || o.Mask != nil, "ALiBi needs a mask")
	if op.arena != nil {
		op.require(k.typ.IsNumeric() && v.typ.IsNumeric(), "k and v must have a float or quantised type")
		op.require(q.ne[0] == k.ne[0], "ne0 of q and k must be equal: %d and %d", q.ne[0], k.ne[0])
		op.require(k.ne[1] == v.ne[1] && k.ne[2] == v.ne[2] && k.ne[3] == v.ne[3], "k and v must agree in ne1, ne2 and ne3")
		op.require(q.ne[2]%k.ne[2] == 0, "the heads of q must be a multiple of the heads of k")
	}
	op.sinks(o.Sinks, q.Dim(2))
	return op
}

// attentionMask checks the mask of q for kv keys; nil is valid.
func (op *opCall) attentionMask(q, mask *Tensor, kv int64) {
	if mask == nil {
		return
	}
	op.require(mask.ne[0] == kv && mask.ne[1] >= q.ne[1], "the mask must be [kv, at least n]")
	op.require(q.ne[2]%mask.ne[2] == 0 && q.ne[3]%mask.ne[3] == 0, "the heads and batches of q must be multiples of the mask's")
}

// attend builds the op; with seen nil it is the attention to all rows.
func (op *opCall) attend(q, k, v, seen *Tensor, o AttentionOptions) *Tensor {
	if o.Scale == 0 {
		o.Scale = float32(1 / math.Sqrt(float64(q.Dim(0))))
	}
	return op.done(C.goggml_op_flash_attn_ext(op.arena, q.ptr(), k.ptr(), v.ptr(), o.Mask.ptr(), o.Sinks.ptr(), seen.ptr(), C.float(o.Scale), C.float(o.MaxBias), C.float(o.Softcap)))
}

// TopKOptions are the optional operands of [Context.TopKMask].
type TopKOptions struct {
	// Score [picks, n, m, b], F32, says which picks count: those with a score above −∞. nil: all.
	Score *Tensor
	// Blocks [size, picks], I32, are the keys of each pick. nil: a pick is a key.
	Blocks *Tensor
	// Extra [extra, n, m, b], I32, are keys that each query sees besides. nil: none.
	Extra *Tensor
}

// TopKMask returns the mask of sparse attention that hides the keys that a query did not pick:
//
//	mask [kv, mask n, mask m, mask b] (F16 or F32), topK [top, n, m, b] (I32) → [kv, n, m, b]
//
// n, m and b are multiples of the mask's, which is repeated. Keys that query topK[·, i] picks keep
// their value of the mask, all others become −∞. Picks and keys that are out of range are skipped. It
// has no backward. C: ggml_top_k_mask.
func (c *Context) TopKMask(mask, topK *Tensor, o TopKOptions) *Tensor {
	op := c.begin("top_k_mask", mask, topK)
	op.types("mask", mask, F32, F16)
	op.types("topK", topK, I32)
	op.contiguous("mask", mask)
	op.contiguous("topK", topK)
	for _, x := range []struct {
		name string
		t    *Tensor
		typ  Type
	}{{"score", o.Score, F32}, {"blocks", o.Blocks, I32}, {"extra", o.Extra, I32}} {
		op.optional(x.t)
		op.types(x.name, x.t, x.typ)
		op.contiguous(x.name, x.t)
	}
	if op.arena != nil {
		op.require(topK.ne[1]%mask.ne[1] == 0 && topK.ne[2]%mask.ne[2] == 0 && topK.ne[3]%mask.ne[3] == 0, "ne1, ne2 and ne3 of topK must be multiples of the mask's")
		op.sameRows("score", o.Score, topK)
		op.sameRows("extra", o.Extra, topK)
		op.require(o.Blocks == nil || o.Blocks.NumDims() <= 2, "blocks must be [size, picks]")
		op.require(o.Blocks == nil || o.Score == nil || o.Blocks.ne[1] == o.Score.ne[0], "blocks must have the keys of each pick that has a score")
	}
	return op.done(C.goggml_op_top_k_mask(op.arena, mask.ptr(), topK.ptr(), o.Score.ptr(), o.Blocks.ptr(), o.Extra.ptr()))
}

// sameRows requires that an optional operand has a row for each row of another.
func (op *opCall) sameRows(name string, t, other *Tensor) {
	op.require(t == nil || t.ne[1] == other.ne[1] && t.ne[2] == other.ne[2] && t.ne[3] == other.ne[3], "%s must have a row for each row of topK", name)
}
