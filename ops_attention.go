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

// DiagMaskInf sets the elements above diagonal past (i0 > past + i1) to −∞. a is F32. C:
// ggml_diag_mask_inf.
func (c *Context) DiagMaskInf(a *Tensor, past int) *Tensor {
	op := c.diagMask("diag_mask_inf", a, past)
	return op.done(C.goggml_op_diag_mask_inf(op.arena, a.ptr(), C.int(past)))
}

// DiagMaskZero is DiagMaskInf with 0 instead of −∞. C: ggml_diag_mask_zero.
func (c *Context) DiagMaskZero(a *Tensor, past int) *Tensor {
	op := c.diagMask("diag_mask_zero", a, past)
	return op.done(C.goggml_op_diag_mask_zero(op.arena, a.ptr(), C.int(past)))
}

func (c *Context) diagMask(name string, a *Tensor, past int) *opCall {
	op := c.begin(name, a)
	op.types("a", a, F32)
	op.canonicalStrides("a", a)
	op.require(past >= 0 && past < 1<<30, "the diagonal is %d; it must not be negative", past)
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
	op := c.begin("flash_attn_ext", q, k, v)
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
		op.require(q.ne[3] == k.ne[3], "ne3 of q and k must be equal: %d and %d", q.ne[3], k.ne[3])
	}
	if op.arena != nil && o.Mask != nil {
		op.require(o.Mask.ne[0] == k.ne[1] && o.Mask.ne[1] >= q.ne[1], "the mask must be [kv, at least n]")
		op.require(q.ne[2]%o.Mask.ne[2] == 0 && q.ne[3]%o.Mask.ne[3] == 0, "the heads and batches of q must be multiples of the mask's")
	}
	op.sinks(o.Sinks, q.Dim(2))
	if o.Scale == 0 {
		o.Scale = float32(1 / math.Sqrt(float64(q.Dim(0))))
	}
	return op.done(C.goggml_op_flash_attn_ext(op.arena, q.ptr(), k.ptr(), v.ptr(), o.Mask.ptr(), o.Sinks.ptr(), C.float(o.Scale), C.float(o.MaxBias), C.float(o.Softcap)))
}
