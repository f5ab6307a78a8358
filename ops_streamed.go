package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"math"
	"sync"
)

// streamable tells whether the CPU plugin, which is loaded for it, shows its routines.
var streamable = sync.OnceValue(func() bool {
	r, err := CPURegistry()
	return err == nil && bool(C.goggml_stream_open(r.r))
})

// StreamMulMat is [Context.MulMat] of a matrix with few columns on the CPU, as in
// generating token by token: w [k, m, p, q] of any float or quantised type,
// x [k, n, p, q] in F32 → [m, n, p, q], F32. As there x is rounded to the type that
// w's dot product takes. But w is asked for a little ahead of its products, which
// is up to three times as fast where it does not lie in a cache; from about eight
// columns on MulMat is faster. Both operands are contiguous.
//
// It is an op of the CPU backend, and its results do not depend on the number of
// threads. Where the CPU plugin does not show its routines it is MulMat. It has no
// backward for [Graph.Backward].
func (c *Context) StreamMulMat(w, x *Tensor) *Tensor {
	if w != nil && w.typ.isFloat() && !(streamable() && bool(C.goggml_can_stream(C.enum_ggml_type(w.typ)))) {
		return c.MulMat(w, x)
	}
	op := c.begin("stream_mul_mat", w, x)
	op.require(w == nil || w.typ.isFloat(), "w has no float or quantised type")
	op.types("x", x, F32)
	op.fresh("w", w)
	op.fresh("x", x)
	if op.arena != nil {
		op.require(w.ne[0] == x.ne[0], "ne0 must be equal: w has %d, x has %d", w.ne[0], x.ne[0])
		op.require(w.ne[2] == x.ne[2] && w.ne[3] == x.ne[3], "ne2 and ne3 must be equal")
		op.require(w.ne[0] <= math.MaxInt32, "ne0 is above %d", math.MaxInt32)
	}
	return op.done(C.goggml_op_stream_mul_mat(op.arena, w.ptr(), x.ptr()))
}
