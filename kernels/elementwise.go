package kernels

// #include "elementwise.h"
import "C"

import (
	"unsafe"

	"github.com/goggml/ggml"
)

var (
	castBF16 = &ggml.NativeOp{Name: "cast_bf16", Func: unsafe.Pointer(C.kern_op_cast_bf16)}
	geGLU    = &ggml.NativeOp{Name: "vector_geglu", Func: unsafe.Pointer(C.kern_op_geglu)}
	gluGrads = map[ggml.GLU]*ggml.NativeOp{
		ggml.SwiGLU: {Name: "swiglu_grad", Func: unsafe.Pointer(C.kern_op_swiglu_grad)},
		ggml.GeGLU:  {Name: "geglu_grad", Func: unsafe.Pointer(C.kern_op_geglu_grad)},
	}
)

// CastBF16 rounds a [k, n, p, q], F32 and contiguous, to BF16, ties to even. It equals
// [ggml.Context.Cast] to BF16, vectorised. It is an op of the CPU backend, and has no backward for
// [ggml.Graph.Backward].
func CastBF16(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor {
	return c.BuildOp(castBF16.Name, []*ggml.Tensor{a}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireF32(b, "a", a)
		return b.Native(castBF16, nil, ggml.BF16, a.Dim(0), a.Dim(1), a.Dim(2), a.Dim(3))
	})
}

// GateGELU returns gelu(gate) · up, all [k, n, p, q], F32 and contiguous, with the tanh
// approximation of gelu (arXiv 2002.05202, 1606.08415):
//
//	gate · σ(√(8/π) · (gate + 0.044715 · gate³)) · up
//
// It is [ggml.Context.GLUSplit] of [ggml.GeGLU], vectorised. ggml's CPU backend looks gelu up in a
// table of F16; this op rounds argument and result of gelu to F16 as well. The two seldom differ,
// and then by at most a unit in the last place of F16. It is an op of the CPU backend, and has no
// backward for [ggml.Graph.Backward]; [GLUGradInPlace] returns the gradient.
func GateGELU(c *ggml.Context, gate, up *ggml.Tensor) *ggml.Tensor {
	return c.BuildOp(geGLU.Name, []*ggml.Tensor{gate, up}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireF32(b, "gate", gate)
		requireF32(b, "up", up)
		b.RequireSameShape(gate, up)
		return b.Native(geGLU, nil, ggml.F32, gate.Dim(0), gate.Dim(1), gate.Dim(2), gate.Dim(3))
	})
}

// GLUGradInPlace replaces up by the gradient of gate in act(gate) · up (see
// [ggml.Context.GLUSplit]), given the gradient dy of the result, and returns a view of it: all [k,
// n, p, q], F32 and contiguous. act is [ggml.SwiGLU] or [ggml.GeGLU]:
//
//	dgate = dy · up · σ(z) · (1 + gate · z' · (1 − σ(z)))
//	z = gate for SwiGLU, √(8/π) · (gate + 0.044715 · gate³) for GeGLU
//
// ggml's CPU backend looks GeGLU's activation up in a table of F16, whose steps have no slope; this
// gradient is the smooth function's.
//
// For SwiGLU it computes [ggml.Context.SiluBack] of dy · up in one vectorised pass. It is an op of
// the CPU backend, and has no backward for [ggml.Graph.Backward].
func GLUGradInPlace(c *ggml.Context, act ggml.GLU, up, gate, dy *ggml.Tensor) *ggml.Tensor {
	return c.BuildOp("glu_grad", []*ggml.Tensor{up, gate, dy}, func(b *ggml.OpBuilder) *ggml.Tensor {
		op := gluGrads[act]
		b.Require(op != nil, "there is no gradient of %v; swiglu and geglu have one", act.String())
		requireF32(b, "up", up)
		requireF32(b, "gate", gate)
		requireF32(b, "dy", dy)
		b.RequireSameShape(up, gate)
		b.RequireSameShape(up, dy)
		return b.NativeInPlace(op, nil)
	})
}

// requireF32 requires a contiguous F32 tensor.
func requireF32(b *ggml.OpBuilder, what string, t *ggml.Tensor) {
	b.RequireType(what, t, ggml.F32)
	b.RequireContiguous(what, t)
}
