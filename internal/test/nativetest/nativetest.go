// Package nativetest has C ops for tests and examples of the hook for native ops: [SumSquares] creates a
// tensor, [Scale] modifies one in place. [Throw] throws a C++ exception, as plugins for GPUs do.
package nativetest

// #cgo linux CFLAGS: -I${SRCDIR}/../../../ggml/include -fexceptions
// #cgo linux LDFLAGS: -L${SRCDIR}/../../../ggml/lib -Wl,-rpath,${SRCDIR}/../../../ggml/lib
// #cgo linux LDFLAGS: -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined
// #cgo linux LDFLAGS: -lggml-base
// #cgo darwin pkg-config: ggml
// #cgo darwin LDFLAGS: -lggml-base
// #include "nativetest.h"
import "C"

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/goggml/ggml"
)

var sumSquares = &ggml.NativeOp{
	Name: "sum_squares_of_rows",
	Func: unsafe.Pointer(C.sum_squares_of_rows),
	FLOPs: func(_ [ggml.MaxDims]int64, operands [][ggml.MaxDims]int64) float64 {
		return 2 * float64(operands[0][0]) * float64(operands[0][1])
	},
}

// SumSquares sums the squares of each row: x [n, rows], F32 → [1, rows], F32.
func SumSquares(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.BuildOp("sum_squares_of_rows", []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor {
		b.RequireType("x", x, ggml.F32)
		b.RequireContiguous("x", x)
		b.Require(x.NumDims() <= 2, "x must be a matrix, it has %d dimensions", x.NumDims())
		return b.Native(sumSquares, nil, ggml.F32, 1, x.Dim(1))
	})
}

// SumSquaresOp returns the op of [SumSquares].
func SumSquaresOp() *ggml.NativeOp { return sumSquares }

var scale = &ggml.NativeOp{Name: "scale_by_param", Func: unsafe.Pointer(C.scale_by_param)}

// Scale multiplies x by a factor, in place: x [ne0, …], F32, contiguous.
func Scale(c *ggml.Context, x *ggml.Tensor, factor float32) *ggml.Tensor {
	return c.BuildOp("scale_by_param", []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor {
		b.RequireType("x", x, ggml.F32)
		b.RequireContiguous("x", x)
		return b.NativeInPlace(scale, binary.NativeEndian.AppendUint32(nil, math.Float32bits(factor)))
	})
}

// An Exception selects what [Throw] throws.
type Exception uint32

// Kinds of exceptions.
const (
	RuntimeError Exception = iota // std::runtime_error with the message "the device is lost"
	BadAlloc                      // std::bad_alloc
	Number                        // an int, which has no message
)

var throw = &ggml.NativeOp{Name: "throw", Func: unsafe.Pointer(C.throw_exception)}

// Throw returns an op that throws when it is computed.
func Throw(c *ggml.Context, x *ggml.Tensor, what Exception) *ggml.Tensor {
	return c.BuildOp("throw", []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor {
		return b.NativeInPlace(throw, binary.NativeEndian.AppendUint32(nil, uint32(what)))
	})
}

// Left returns how often an exception has passed through a C function, whose cleanup ran as a C++ destructor
// does.
func Left() int { return int(C.left) }

// Function returns the address of a C function that no op of this package uses.
func Function() unsafe.Pointer { return unsafe.Pointer(C.does_nothing) }
