package ggml

// #include "csrc/goggml.h"
import "C"

// A Pool reduces the elements of a window. C: enum ggml_op_pool.
type Pool int

// The kinds of pooling.
const (
	PoolMax Pool = C.GGML_OP_POOL_MAX // the largest element
	PoolAvg Pool = C.GGML_OP_POOL_AVG // the mean
)

// A PoolDim describes how a window moves along one dimension. An input of n elements gives (n +
// 2·Padding − Size) / Stride + 1 positions, rounded down.
type PoolDim struct {
	Size    int // number of elements of the window
	Stride  int // step between two positions; 0 is Size
	Padding int // elements added at each end, less than Size
}

// window checks how the window moves along n elements, and returns the number of positions.
func (op *opCall) window(i int, d *PoolDim, n int64) int64 {
	if d.Stride == 0 {
		d.Stride = d.Size
	}
	ok := d.Size >= 1 && d.Size <= maxConv && d.Stride >= 1 && d.Stride <= maxConv && d.Padding >= 0 && d.Padding < d.Size
	op.require(ok, "dimension %d: a window of %d, stride %d, padding %d; size and stride must be 1 to %d, padding less than the size", i, d.Size, d.Stride, d.Padding, maxConv)
	room := n + 2*int64(d.Padding) - int64(d.Size)
	op.require(room >= 0, "dimension %d: a window of %d does not fit into %d and a padding of %d", i, d.Size, n, d.Padding)
	if op.arena == nil {
		return 0
	}
	return room/int64(d.Stride) + 1
}

func (c *Context) pool(name string, kind Pool, operands ...*Tensor) *opCall {
	op := c.begin(name, operands...)
	op.require(kind == PoolMax || kind == PoolAvg, "there is no pooling %d", int(kind))
	for _, t := range operands {
		op.canonicalStrides("the operand", t)
		if op.arena != nil {
			op.require(t.ne[0] < 1<<30 && t.ne[1] < 1<<30, "ne0 and ne1 must be less than %d", 1<<30)
		}
	}
	return op
}

// Pool1D reduces windows of each row: [n, …] → [positions, …], F32. Padding does
// not count in a mean. a is contiguous F32 or F16. It has no backward.
// C: ggml_pool_1d.
func (c *Context) Pool1D(a *Tensor, kind Pool, d PoolDim) *Tensor {
	op := c.pool("pool_1d", kind, a)
	op.types("a", a, F32, F16)
	if op.arena != nil {
		op.window(0, &d, a.ne[0])
	}
	return op.done(C.goggml_op_pool_1d(op.arena, a.ptr(), C.enum_ggml_op_pool(kind), C.int(d.Size), C.int(d.Stride), C.int(d.Padding)))
}

// Pool2D reduces windows over dimensions 0 and 1:
// [w, h, …] → [positions 0, positions 1, …], F32. Padding counts as zeros in a
// mean. a is contiguous F32 or F16. There is a backward for F32.
// C: ggml_pool_2d.
func (c *Context) Pool2D(a *Tensor, kind Pool, dims [2]PoolDim) *Tensor {
	op := c.pool("pool_2d", kind, a)
	op.types("a", a, F32, F16)
	if op.arena != nil {
		op.window(0, &dims[0], a.ne[0])
		op.window(1, &dims[1], a.ne[1])
	}
	return op.done(C.goggml_op_pool_2d(op.arena, a.ptr(), C.enum_ggml_op_pool(kind), C.int(dims[0].Size), C.int(dims[1].Size),
		C.int(dims[0].Stride), C.int(dims[1].Stride), C.float(dims[0].Padding), C.float(dims[1].Padding)))
}

// Pool2DBack returns the gradient of x in [Context.Pool2D], given the gradient of the result. For
// PoolMax, the first largest element of a window gets the whole gradient. Both are contiguous F32.
// It has no backward. C: ggml_pool_2d_back.
func (c *Context) Pool2DBack(grad, x *Tensor, kind Pool, dims [2]PoolDim) *Tensor {
	op := c.pool("pool_2d_back", kind, grad, x)
	op.types("grad", grad, F32)
	op.types("x", x, F32)
	if op.arena != nil {
		want := [4]int64{op.window(0, &dims[0], x.ne[0]), op.window(1, &dims[1], x.ne[1]), x.ne[2], x.ne[3]}
		op.require(grad.ne == want, "grad must have the shape %v, as the result of pool_2d", want)
	}
	return op.done(C.goggml_op_pool_2d_back(op.arena, grad.ptr(), x.ptr(), C.enum_ggml_op_pool(kind), C.int(dims[0].Size), C.int(dims[1].Size),
		C.int(dims[0].Stride), C.int(dims[1].Stride), C.float(dims[0].Padding), C.float(dims[1].Padding)))
}
