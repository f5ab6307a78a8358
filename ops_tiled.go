package ggml

// #include "csrc/goggml.h"
import "C"

// TiledLibrary names the BLAS library that the tiled products use on the CPU,
// "" when none is found; then they are made of stock ops. The environment
// variable GOGGML_BLAS names another library file, or none. Its own threads
// are turned off, for all of the process.
func TiledLibrary() string {
	if name := C.goggml_tiled_library(); name != nil {
		return C.GoString(name)
	}
	return ""
}

// TiledMulMat is [Context.MulMat] of a matrix of any float or quantised type,
// exact to F32: w [k, m, p, q], x [k, n, p, q] → [m, n, p, q]. Where MulMat
// rounds x to suit the type of w, this converts w to F32, a tile at a time, and
// so its gradients (TiledMulMatX and TiledMulMatW) are exact too. Both are
// contiguous, x is F32.
//
// With a [TiledLibrary] it is an op of the CPU backend, fast from about eight
// columns on; otherwise it is made of Cast and MulMat. It has no backward for
// [Graph.Backward].
func (c *Context) TiledMulMat(w, x *Tensor) *Tensor {
	if TiledLibrary() == "" {
		return c.MulMat(c.asF32(w), x)
	}
	op := c.begin("tiled_mul_mat", w, x)
	op.tiled(w, x)
	if op.arena != nil {
		op.require(w.ne[0] == x.ne[0], "ne0 must be equal: w has %d, x has %d", w.ne[0], x.ne[0])
	}
	return op.done(C.goggml_op_tiled_mul_mat(op.arena, w.ptr(), x.ptr()))
}

// TiledMulMatX returns the gradient of x in [Context.TiledMulMat], given that
// of the result: w [k, m, p, q], y [m, n, p, q] → [k, n, p, q]. It has no backward.
func (c *Context) TiledMulMatX(w, y *Tensor) *Tensor {
	if TiledLibrary() == "" {
		return c.OutProd(c.asF32(w), c.Transpose(y))
	}
	op := c.begin("tiled_mul_mat_x", w, y)
	op.tiled(w, y)
	if op.arena != nil {
		op.require(w.ne[1] == y.ne[0], "ne0 of y must be ne1 of w: they are %d and %d", y.ne[0], w.ne[1])
	}
	return op.done(C.goggml_op_tiled_mul_mat_x(op.arena, w.ptr(), y.ptr()))
}

// TiledMulMatW returns the gradient of w in [Context.TiledMulMat], given x and
// the gradient of the result: x [k, n, p, q], y [m, n, p, q] → [k, m, p, q]. It
// has no backward.
func (c *Context) TiledMulMatW(x, y *Tensor) *Tensor {
	if TiledLibrary() == "" {
		return c.OutProd(x, y)
	}
	op := c.begin("tiled_mul_mat_w", x, y)
	op.tiled(x, y)
	op.types("x", x, F32)
	if op.arena != nil {
		op.require(x.ne[1] == y.ne[1], "ne1 must be equal: x has %d, y has %d", x.ne[1], y.ne[1])
	}
	return op.done(C.goggml_op_tiled_mul_mat_w(op.arena, x.ptr(), y.ptr()))
}

func (op *opCall) tiled(w, x *Tensor) {
	op.require(w == nil || w.typ.isFloat(), "the first operand has no float or quantised type")
	op.types("the second operand", x, F32)
	op.dense("the first operand", w)
	op.dense("the second operand", x)
	if op.arena == nil {
		return
	}
	op.require(w.ne[2] == x.ne[2] && w.ne[3] == x.ne[3], "ne2 and ne3 of both operands must be equal")
	const most = 1<<31 - 1
	op.require(max(w.ne[0], w.ne[1], x.ne[0], x.ne[1]) <= most, "a dimension is above %d", most)
}

func (c *Context) asF32(t *Tensor) *Tensor {
	if t != nil && t.typ == F32 {
		return t
	}
	return c.Cast(t, F32)
}
