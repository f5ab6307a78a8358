package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"math"
	"slices"
	"sync"
)

// streamable tells whether the CPU plugin, which is loaded for it, shows its routines.
var streamable = sync.OnceValue(func() bool {
	r, err := CPURegistry()
	return err == nil && bool(C.goggml_stream_open(r.r))
})

// MaxStreamed is the number of matrices that one [Context.StreamMulMat] can multiply.
const MaxStreamed = maxCustom - 1

// StreamMulMat is [Context.MulMat] of a matrix with few columns on the CPU, as in
// generating token by token: w [k, m, p, q] of any float or quantised type,
// x [k, n, p, q] in F32 → [m, n, p, q], F32. As there x is rounded to the type that
// w's dot product takes. But w is asked for a little ahead of its products, which
// is up to three times as fast where it does not lie in a cache; from about eight
// columns on MulMat is faster. The sums are those of MulMat too, but for types of which
// [StreamsColumns] is true, where they are in another order.
//
// More matrices may follow, at most [MaxStreamed] in all, of types and ne1 of their
// own: ne0 of the result is the sum of their ne1, first the products of w. For small
// matrices that takes less time than ops of their own. All operands are contiguous.
//
// It is an op of the CPU backend, and its results do not depend on the number of
// threads. Where the CPU plugin does not show its routines it is MulMat, and Concat.
// It has no backward for [Graph.Backward].
func (c *Context) StreamMulMat(w, x *Tensor, more ...*Tensor) *Tensor {
	if isNotStreamable(w) || slices.ContainsFunc(more, isNotStreamable) {
		y := c.MulMat(w, x)
		for _, w := range more {
			y = c.Concat(y, c.MulMat(w, x), 0)
		}
		return y
	}
	n := 1 + len(more)
	operands := append([]*Tensor{w, x}, more...)
	op := c.begin("stream_mul_mat", operands[:1+min(n, MaxStreamed)]...)
	op.require(n <= MaxStreamed, "there are %d matrices; at most %d can be multiplied", n, MaxStreamed)
	op.types("x", x, F32)
	op.fresh("x", x)
	op.streams(w, x)
	for _, w := range more {
		op.streams(w, x)
	}
	return op.build(func(operands **C.struct_ggml_tensor, n C.int) C.goggml_tensor {
		return C.goggml_op_stream_mul_mat(op.arena, operands, n)
	})
}

// StreamsColumns tells whether [Context.StreamMulMat] multiplies a row of a type by
// several columns at once, so that up to four take little longer than one: Q8_0 and
// Q4_0 on processors with AVX512-VNNI. Otherwise each column takes its time.
func StreamsColumns(t Type) bool {
	return streamable() && bool(C.goggml_streams_columns(C.enum_ggml_type(t)))
}

// streams checks one of the matrices that multiply x.
func (op *opCall) streams(w, x *Tensor) {
	op.require(w == nil || w.typ.isFloat(), "w has no float or quantised type")
	op.fresh("w", w)
	if op.arena != nil {
		op.require(w.ne[0] == x.ne[0], "ne0 must be equal: w has %d, x has %d", w.ne[0], x.ne[0])
		op.require(w.ne[2] == x.ne[2] && w.ne[3] == x.ne[3], "ne2 and ne3 must be equal")
		op.require(w.ne[0] <= math.MaxInt32, "ne0 is above %d", math.MaxInt32)
	}
}

// isNotStreamable tells whether there is no routine for a matrix that could have one.
func isNotStreamable(w *Tensor) bool {
	return w != nil && w.typ.isFloat() && !(streamable() && bool(C.goggml_can_stream(C.enum_ggml_type(w.typ))))
}
