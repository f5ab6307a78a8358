package ggml

// #include "csrc/goggml.h"
import "C"

import "math"

// CausalSoftMaxInPlace makes the scores of causal attention weights, in place,
// and returns a view of them: a [keys, queries, …], F32 and contiguous, where
// query i, at position first + i, sees the keys up to that position.
//
//	y = softmax(scale · a) over the first first + i + 1 keys, 0 for the others
//
// It does what [Context.DiagMaskInfInPlace] and [Context.SoftMaxExtInPlace] do
// together, several times as fast. It is an op of the CPU backend, and has no
// backward for [Graph.Backward]; the gradient of a is
// [Context.SoftMaxBackInPlace] with the result.
func (c *Context) CausalSoftMaxInPlace(a *Tensor, scale float32, first int) *Tensor {
	op := c.begin("causal_soft_max", a)
	op.types("a", a, F32)
	op.dense("a", a)
	op.require(scale > 0 && scale <= math.MaxFloat32, "the scale is %v; it must be above 0 and finite", scale)
	op.require(first >= 0 && first <= math.MaxInt32, "the first query is at position %d; it must be 0 to %d", first, math.MaxInt32)
	return op.done(C.goggml_op_causal_soft_max(op.arena, a.ptr(), C.float(scale), C.int32_t(first)))
}
