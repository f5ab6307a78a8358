package ggml

// #include "csrc/goggml.h"
import "C"

// SoftMax returns e^a normalised to the sum 1 in each row. a is contiguous
// F32. C: ggml_soft_max.
func (c *Context) SoftMax(a *Tensor) *Tensor { return c.SoftMaxExt(a, nil, 1, 0) }

// SoftMaxExt returns softmax(scale · a + slope · mask) of each row:
//
//	a [n, rows, heads, batch], mask [n, ≥ rows, m, b] or nil, with heads and
//	batch multiples of m and b
//
// mask is F32 or F16, 0 where a key counts and −∞ where not. With maxBias 0
// the slope is 1, else it is ALiBi's of the head. a is contiguous F32. The
// backward needs maxBias 0. C: ggml_soft_max_ext.
func (c *Context) SoftMaxExt(a, mask *Tensor, scale, maxBias float32) *Tensor {
	op := c.softMax("soft_max_ext", a, mask, maxBias)
	return op.done(C.goggml_op_soft_max_ext(op.arena, a.ptr(), mask.ptr(), C.float(scale), C.float(maxBias)))
}

func (c *Context) softMax(name string, a, mask *Tensor, maxBias float32) *opCall {
	op := c.begin(name, a)
	op.types("a", a, F32)
	op.dense("a", a)
	op.optional(mask)
	op.types("mask", mask, F32, F16)
	op.dense("mask", mask)
	if op.arena != nil && mask != nil {
		op.require(mask.ne[0] == a.ne[0] && mask.ne[1] >= a.ne[1], "the mask must have a's ne0, and at least its ne1")
		op.require(a.ne[2]%mask.ne[2] == 0 && a.ne[3]%mask.ne[3] == 0, "ne2 and ne3 of a must be multiples of those of the mask")
	}
	op.require(maxBias == 0 || mask != nil, "ALiBi needs a mask")
	return op
}

// SoftMaxBack returns the gradient of a in [Context.SoftMaxExt] with maxBias
// 0, given the gradient of the result and the result y. Both are contiguous
// F32 of one shape. It has no backward. C: ggml_soft_max_ext_back.
func (c *Context) SoftMaxBack(grad, y *Tensor, scale float32) *Tensor {
	op := c.softMaxBack("soft_max_ext_back", grad, y)
	return op.done(C.goggml_op_soft_max_ext_back(op.arena, grad.ptr(), y.ptr(), C.float(scale), 0))
}

func (c *Context) softMaxBack(name string, grad, y *Tensor) *opCall {
	op := c.begin(name, grad, y)
	op.types("grad", grad, F32)
	op.types("y", y, F32)
	op.sameShape(grad, y)
	op.fresh("grad", grad)
	op.fresh("y", y)
	return op
}

// DiagMaskInf sets the elements above diagonal past, those with
// i0 > past + i1, to −∞. a is F32. C: ggml_diag_mask_inf.
func (c *Context) DiagMaskInf(a *Tensor, past int) *Tensor {
	op := c.diagMask("diag_mask_inf", a, past)
	return op.done(C.goggml_op_diag_mask_inf(op.arena, a.ptr(), C.int(past)))
}

// DiagMaskZero is DiagMaskInf with 0 for −∞. C: ggml_diag_mask_zero.
func (c *Context) DiagMaskZero(a *Tensor, past int) *Tensor {
	op := c.diagMask("diag_mask_zero", a, past)
	return op.done(C.goggml_op_diag_mask_zero(op.arena, a.ptr(), C.int(past)))
}

func (c *Context) diagMask(name string, a *Tensor, past int) *opCall {
	op := c.begin(name, a)
	op.types("a", a, F32)
	op.fresh("a", a)
	op.require(past >= 0 && past < 1<<30, "the diagonal is %d; it must not be negative", past)
	return op
}

// FlashAttention returns softmax(scale · q·k + mask)·v without storing the
// scores:
//
//	q [d, n, heads, batch] (F32), k [d, kv, kv heads, batch],
//	v [e, kv, kv heads, batch], mask [kv, ≥ n, …] (F16) or nil
//	→ [e, heads, n, batch], F32 (permuted)
//
// k and v have a float or quantised type each; heads of k, or of v, that is
// quantised are whole blocks. softcap 0 is none. It has no backward.
// C: ggml_flash_attn_ext.
func (c *Context) FlashAttention(q, k, v, mask *Tensor, scale, maxBias, softcap float32) *Tensor {
	op := c.flashAttention("flash_attn_ext", q, k, v, mask, maxBias)
	return op.done(C.goggml_op_flash_attn_ext(op.arena, q.ptr(), k.ptr(), v.ptr(), mask.ptr(), C.float(scale), C.float(maxBias), C.float(softcap)))
}

func (c *Context) flashAttention(name string, q, k, v, mask *Tensor, maxBias float32) *opCall {
	op := c.begin(name, q, k, v)
	op.types("q", q, F32)
	op.denseRows("q", q)
	op.denseRows("k", k)
	op.denseRows("v", v)
	op.optional(mask)
	op.types("mask", mask, F16)
	op.dense("mask", mask)
	op.require(maxBias == 0 || mask != nil, "ALiBi needs a mask")
	if op.arena != nil {
		op.require(k.typ.isFloat() && v.typ.isFloat(), "k and v must have a float or quantised type")
		op.require(q.ne[0] == k.ne[0], "ne0 of q and k must be equal: %d and %d", q.ne[0], k.ne[0])
		op.require(k.ne[1] == v.ne[1] && k.ne[2] == v.ne[2] && k.ne[3] == v.ne[3], "k and v must agree in ne1, ne2 and ne3")
		op.require(q.ne[2]%k.ne[2] == 0, "the heads of q must be a multiple of those of k")
		op.require(q.ne[3] == k.ne[3], "ne3 of q and k must be equal: %d and %d", q.ne[3], k.ne[3])
		if mask != nil {
			op.require(mask.ne[0] == k.ne[1] && mask.ne[1] >= q.ne[1], "the mask must be [kv, at least n]")
			op.require(q.ne[2]%mask.ne[2] == 0 && q.ne[3]%mask.ne[3] == 0, "the heads and batches of q must be multiples of those of the mask")
		}
	}
	return op
}
