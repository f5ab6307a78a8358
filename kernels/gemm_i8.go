package kernels

// #include "gemm_i8.h"
import "C"

import (
	"slices"
	"unsafe"

	"github.com/goggml/ggml"
)

// A packed operand follows each pair, and the sum precedes them.
const maxPairsI8 = (ggml.MaxOperands - 1) / 3

var (
	packI8 = &ggml.NativeOp{
		Name: "pack_i8", Func: unsafe.Pointer(C.kern_op_pack_i8),
		FLOPs: func(_ shape, x []shape) float64 { return elements(x[0]) },
	}
	gemmGradInputI8 = &ggml.NativeOp{
		Name: "gemm_grad_input_i8", Func: unsafe.Pointer(C.kern_op_gemm_grad_input_i8),
		FLOPs: func(dx shape, operands []shape) float64 {
			depth := int64(0)
			for ; len(operands) >= 3; operands = operands[:len(operands)-3] { // the sum may be the first
				depth += operands[len(operands)-3][1]
			}
			return 2 * elements(dx) * float64(depth)
		},
	}
)

// HasI8 reports whether [GEMMGradInputI8] has a kernel for the processor: with AVX512-VNNI, AVX-VNNI or AVX2.
func HasI8() bool { return bool(C.kern_has_i8()) }

// InstructionsI8 names the instructions of that kernel; "" if [HasI8] is false. ONEDNN_MAX_CPU_ISA limits them, as
// it limits oneDNN's.
func InstructionsI8() string { return C.GoString(C.kern_i8_name()) }

// GEMMGradInputI8 is [GEMMGradInput] with both operands rounded to 8 bits:
//
//	W [k, m, p, q], dY [m, n, p, q] → sum + Σ W·dY [k, n, p, q], F32
//
// It adds to the sum in place, F32 and contiguous, and returns a view of it; nil stands for zeros, of which the
// result is a tensor of its own. dY is F32 or BF16, and W has any float or quantised type.
//
// The depth m is divided into blocks of up to 256. Both operands of a block are rotated by a Hadamard matrix, which
// spreads outliers and leaves the product as it is (arXiv 2404.00456), and rounded with a scale for each row and
// column of a block; sums of a block are exact, in 32 bits. The error is about 1 % of a result for random operands.
// It averages out over the many elements of a gradient. Blocks that would be rounded by more than 2 %, that are
// not finite, or too small for a scale, are multiplied in F32.
//
// It is one op of the CPU backend for each dY and one for every three pairs, and its results do not depend on the
// number of threads. If [HasI8] is false, it is composed of GEMMGradInput and Add. It has no backward.
func GEMMGradInputI8(c *ggml.Context, sum *ggml.Tensor, pairs ...Pair) *ggml.Tensor {
	if len(pairs) == 0 {
		return buildGradInputI8(c, sum, nil)
	}
	for part := range slices.Chunk(pairs, maxPairsI8) {
		sum = buildGradInputI8(c, sum, part)
	}
	return sum
}

func buildGradInputI8(c *ggml.Context, sum *ggml.Tensor, pairs []Pair) *ggml.Tensor {
	var all operands
	if sum != nil {
		all.add(sum)
	}
	for _, p := range pairs {
		all.add(p.W, p.X)
	}
	return c.BuildOp(gemmGradInputI8.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		b.Require(len(pairs) > 0, "there are no pairs to multiply")
		if !b.OK() {
			return nil
		}
		w, x := pairs[0].W, pairs[0].X
		gradInput.require(b, pairs, pairs[0])
		result := shape{w.Dim(0), x.Dim(1), w.Dim(2), w.Dim(3)}
		if sum != nil {
			requireF32(b, "sum", sum)
			b.Require(shapeOf(sum) == result, "the sum must have the shape %v", result)
			for _, p := range pairs {
				b.RequireNoOverlap(sum, p.W, p.X)
			}
		}
		switch {
		case !b.OK():
			return nil
		case !HasI8():
			return b.Compose(func() *ggml.Tensor {
				dx := GEMMGradInput(c, ggml.PrecisionF32, pairs...)
				if sum == nil {
					return dx
				}
				return c.AddInPlace(sum, dx)
			})
		}
		return b.Compose(func() *ggml.Tensor { return multiplyI8(c, sum, result, pairs) })
	})
}

// multiplyI8 builds the product of checked operands.
func multiplyI8(c *ggml.Context, sum *ggml.Tensor, result shape, pairs []Pair) *ggml.Tensor {
	var all operands
	if sum != nil {
		all.add(sum)
	}
	for _, p := range pairs {
		all.add(p.W, p.X, packColumns(c, p.X))
	}
	return c.BuildOp(gemmGradInputI8.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		if sum != nil {
			return b.NativeInPlace(gemmGradInputI8, params(C.struct_kern_gemm_i8_params{first: 1}))
		}
		return b.Native(gemmGradInputI8, params(C.struct_kern_gemm_i8_params{}), ggml.F32, result[:]...)
	})
}

// packColumns rotates and rounds the columns of x, and packs them as GEMM reads them: I8 [bytes, p · q].
func packColumns(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.BuildOp(packI8.Name, []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor {
		bytes := int64(C.kern_packed_bytes_i8(C.int64_t(x.Dim(0)), C.int64_t(x.Dim(1))))
		return b.Native(packI8, nil, ggml.I8, bytes, x.Dim(2)*x.Dim(3))
	})
}
