package ggml

// #include "csrc/goggml.h"
import "C"

import "math"

// Unless stated otherwise, an op makes a new tensor of the shape and type of its first operand,
// takes operands with contiguous rows and any row stride, and has a backward for [Graph.Backward].

// floats lists the types that element-wise ops take.
var floats = []Type{F32, F16, BF16}

// binary begins an element-wise op of a with b repeated to a's shape.
func (c *Context) binary(name string, a, b *Tensor) *opCall {
	op := c.begin(name, a, b)
	op.types("a", a, floats...)
	op.types("b", b, floats...)
	op.contiguousRows("a", a)
	op.repeats(b, a)
	if op.arena != nil && a.typ != b.typ && (a.typ == F32 || b.typ != F32) {
		op.failed(nil, "b must have the type of a, or be f32")
	}
	return op
}

// repeats requires that small can be repeated to the shape of large.
func (op *opCall) repeats(small, large *Tensor) {
	if op.arena == nil {
		return
	}
	for i := range MaxDims {
		if large.ne[i]%small.ne[i] != 0 {
			op.require(false, "dimension %d: %d is not a multiple of %d, so the second operand cannot be repeated to the shape of the first", i, large.ne[i], small.ne[i])
		}
	}
}

// Add returns a + b, with b repeated to the shape of a. F32, F16, BF16.
// C: ggml_add.
func (c *Context) Add(a, b *Tensor) *Tensor {
	op := c.binary("add", a, b)
	return op.done(C.goggml_op_add(op.arena, a.ptr(), b.ptr()))
}

// AddInPlace adds b to a and returns a view of a. It has no backward.
// C: ggml_add_inplace.
func (c *Context) AddInPlace(a, b *Tensor) *Tensor {
	op := c.binary("add_inplace", a, b)
	op.writable("a", a)
	return op.done(C.goggml_op_add_inplace(op.arena, a.ptr(), b.ptr()))
}

// AddID adds to each row of a the row of b selected by ids:
//
//	a [n, used, tokens], b [n, experts], ids [used, tokens] (I32)
//	result[·, i, t] = a[·, i, t] + b[·, ids[i, t]]
//
// a and b are F32. An index out of range is an error of the compute. It has no backward. C:
// ggml_add_id.
func (c *Context) AddID(a, b, ids *Tensor) *Tensor {
	ids = c.inRange(ids, b.Dim(1))
	op := c.begin("add_id", a, b, ids)
	op.types("a", a, F32)
	op.types("b", b, F32)
	op.types("ids", ids, I32)
	op.contiguousRows("a", a)
	op.contiguousRows("b", b)
	op.contiguousRows("ids", ids)
	if op.arena != nil {
		op.require(a.ne[0] == b.ne[0], "ne0 must be equal: a has %d, b has %d", a.ne[0], b.ne[0])
		op.require(a.ne[3] == 1 && b.NumDims() <= 2 && ids.NumDims() <= 2, "a has at most 3 dimensions, b and ids 2")
		op.require(ids.ne[0] == a.ne[1] && ids.ne[1] == a.ne[2], "ids must be [%d, %d], an index for each row of a", a.ne[1], a.ne[2])
	}
	return op.done(C.goggml_op_add_id(op.arena, a.ptr(), b.ptr(), ids.ptr()))
}

// AddCast returns a + b in type t. b is F32 and has a's shape; both have contiguous rows. If a is
// F16 or BF16, t is F32 or a's type; if a is quantised, t is F32, F16, BF16, or a quantised type
// that [Context.Cast] supports. It has no backward. C: ggml_add_cast.
func (c *Context) AddCast(a, b *Tensor, t Type) *Tensor {
	op := c.begin("add_cast", a, b)
	op.types("b", b, F32)
	op.contiguousRows("a", a)
	op.contiguousRows("b", b)
	if op.arena != nil {
		quantized := a.typ.IsQuantized() && a.typ.IsNumeric()
		op.require(quantized || a.typ == F16 || a.typ == BF16, "a has type %v; it must be f16, bf16 or quantised", a.typ)
		op.require(t == F32 || t == a.typ && !quantized || quantized && (t == F16 || t == BF16 || t.storable()), "the sum of %v and f32 cannot have type %v; use f32 and Cast", a.typ, t)
		op.sameShape(a, b)
		op.checkShape(t, a.ne[:])
	}
	return op.done(C.goggml_op_add_cast(op.arena, a.ptr(), b.ptr(), C.goggml_type(t)))
}

// storable reports whether the CPU converts to the quantised type inside a graph; only Quantize
// converts to the others.
func (t Type) storable() bool {
	switch t {
	case IQ1S, IQ1M, IQ2XXS, IQ2XS, IQ2S, IQ3XXS, IQ3S:
		return false
	}
	return t.IsQuantized() && t.IsNumeric()
}

// Sub returns a − b, with b repeated to the shape of a. The gradient of b requires that b has a's
// shape. C: ggml_sub.
func (c *Context) Sub(a, b *Tensor) *Tensor {
	op := c.binary("sub", a, b)
	return op.done(C.goggml_op_sub(op.arena, a.ptr(), b.ptr()))
}

// Mul returns a · b element by element, with b repeated to the shape of a.
// C: ggml_mul.
func (c *Context) Mul(a, b *Tensor) *Tensor {
	op := c.binary("mul", a, b)
	return op.done(C.goggml_op_mul(op.arena, a.ptr(), b.ptr()))
}

// Div returns a / b element by element, with b repeated to the shape of a. The gradient of b
// requires that b has a's shape. C: ggml_div.
func (c *Context) Div(a, b *Tensor) *Tensor {
	op := c.binary("div", a, b)
	return op.done(C.goggml_op_div(op.arena, a.ptr(), b.ptr()))
}

// Scale returns s · a. a is F32 or BF16. C: ggml_scale.
func (c *Context) Scale(a *Tensor, s float32) *Tensor {
	op := c.scale("scale", a)
	return op.done(C.goggml_op_scale(op.arena, a.ptr(), C.float(s)))
}

// scale begins an op on an F32 or BF16 tensor.
func (c *Context) scale(name string, a *Tensor) *opCall {
	op := c.begin(name, a)
	op.types("a", a, F32, BF16)
	op.contiguousRows("a", a)
	return op
}

// ScaleBias returns s · a + b. a is F32 or BF16. C: ggml_scale_bias.
func (c *Context) ScaleBias(a *Tensor, s, b float32) *Tensor {
	op := c.scale("scale_bias", a)
	return op.done(C.goggml_op_scale_bias(op.arena, a.ptr(), C.float(s), C.float(b)))
}

// Clamp clamps each element to [low, high]. a is F32 or F16. It has no backward. C: ggml_clamp.
func (c *Context) Clamp(a *Tensor, low, high float32) *Tensor {
	op := c.clamp("clamp", a, low, high)
	return op.done(C.goggml_op_clamp(op.arena, a.ptr(), C.float(low), C.float(high)))
}

func (c *Context) clamp(name string, a *Tensor, low, high float32) *opCall {
	op := c.begin(name, a)
	op.types("a", a, F32, F16)
	op.contiguousRows("a", a)
	op.require(low <= high, "the low limit %v is above the high limit %v", low, high)
	return op
}

// elementwise begins an op on each element of a, whose rows must be contiguous.
func (c *Context) elementwise(name string, a *Tensor) *opCall {
	op := c.begin(name, a)
	op.types("a", a, floats...)
	op.contiguousRows("a", a)
	return op
}

// Sqr returns a². C: ggml_sqr.
func (c *Context) Sqr(a *Tensor) *Tensor {
	op := c.elementwise("sqr", a)
	return op.done(C.goggml_op_sqr(op.arena, a.ptr()))
}

// Sqrt returns √a. C: ggml_sqrt.
func (c *Context) Sqrt(a *Tensor) *Tensor {
	op := c.elementwise("sqrt", a)
	return op.done(C.goggml_op_sqrt(op.arena, a.ptr()))
}

// Log returns the natural logarithm of a. C: ggml_log.
func (c *Context) Log(a *Tensor) *Tensor {
	op := c.elementwise("log", a)
	return op.done(C.goggml_op_log(op.arena, a.ptr()))
}

// Sin returns sin(a). C: ggml_sin.
func (c *Context) Sin(a *Tensor) *Tensor {
	op := c.elementwise("sin", a)
	return op.done(C.goggml_op_sin(op.arena, a.ptr()))
}

// Cos returns cos(a). C: ggml_cos.
func (c *Context) Cos(a *Tensor) *Tensor {
	op := c.elementwise("cos", a)
	return op.done(C.goggml_op_cos(op.arena, a.ptr()))
}

// Fill returns a tensor of a's shape with every element set to value. a is
// F32 or F16. It has no backward. C: ggml_fill.
func (c *Context) Fill(a *Tensor, value float32) *Tensor {
	op := c.fill("fill", a)
	return op.done(C.goggml_op_fill(op.arena, a.ptr(), C.float(value)))
}

func (c *Context) fill(name string, a *Tensor) *opCall {
	op := c.begin(name, a)
	op.types("a", a, F32, F16)
	op.contiguous("a", a)
	return op
}

// Arange returns the F32 values start, start+step, … below stop. It has no
// operand, and so no backward. C: ggml_arange.
func (c *Context) Arange(start, stop, step float32) *Tensor {
	op := c.begin("arange")
	op.require(step > 0 && stop > start, "the range from %v to %v in steps of %v is empty or endless", start, stop, step)
	op.require((float64(stop)-float64(start))/float64(step) < math.MaxInt32, "the range from %v to %v in steps of %v has more than %d values", start, stop, step, math.MaxInt32)
	op.require(op.arena == nil || (stop-start)/step > 0, "the range from %v to %v in steps of %v has no values", start, stop, step)
	return op.done(C.goggml_op_arange(op.arena, C.float(start), C.float(stop), C.float(step)))
}
