package ggml

// #include "csrc/goggml.h"
import "C"

// RoundBF16 returns a in BF16, rounded to even: a [k, n, p, q], F32 and
// contiguous. It is what [Context.Cast] to BF16 returns, by the processor's
// vector instructions. It is an op of the CPU backend, and has no backward for
// [Graph.Backward].
func (c *Context) RoundBF16(a *Tensor) *Tensor {
	op := c.begin("round_bf16", a)
	op.types("a", a, F32)
	op.dense("a", a)
	return op.done(C.goggml_op_round_bf16(op.arena, a.ptr()))
}

// SwiGLUBackInPlace replaces up by the gradient of gate in silu(gate) · up,
// which is what [Context.GLUSplit] with [SwiGLU] computes, given that of the
// result, and returns a view of it: all [k, n, p, q], F32 and contiguous.
//
//	σ = 1 / (1 + e^−gate)
//	dgate = dy · up · σ · (1 + gate · (1 − σ))
//
// It is [Context.SiluBack] of dy · up in one, by the processor's vector
// instructions. It is an op of the CPU backend, and has no backward for
// [Graph.Backward].
func (c *Context) SwiGLUBackInPlace(up, gate, dy *Tensor) *Tensor {
	op := c.begin("swiglu_back", up, gate, dy)
	op.allF32(up, gate, dy)
	op.dense("up", up)
	op.dense("gate", gate)
	op.dense("dy", dy)
	op.sameShape(up, gate)
	op.sameShape(up, dy)
	return op.done(C.goggml_op_swiglu_back(op.arena, up.ptr(), gate.ptr(), dy.ptr()))
}
