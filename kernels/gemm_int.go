package kernels

// #include "gemm_int.h"
import "C"

import (
	"slices"
	"unsafe"

	"github.com/goggml/ggml"
)

// A packed operand follows each pair, and the sum precedes them.
const maxIntegerPairs = (ggml.MaxOperands - 1) / 3

// An integerGEMM is GEMM or the gradient of its input in integers.
type integerGEMM struct {
	*gemm
	op, pack *ggml.NativeOp
	i8       bool // in 8 bits
}

var (
	forwardInt = &integerGEMM{
		gemm: forward,
		op:   &ggml.NativeOp{Name: "gemm_int", Func: unsafe.Pointer(C.kern_op_gemm_int), FLOPs: integerFLOPs(0)},
		pack: packInt,
	}
	gradInputInt = &integerGEMM{
		gemm: gradInput,
		op:   &ggml.NativeOp{Name: "gemm_grad_input_int", Func: unsafe.Pointer(C.kern_op_gemm_grad_input_int), FLOPs: integerFLOPs(1)},
		pack: packInt,
	}
	gradInputI8 = &integerGEMM{
		gemm: gradInput, i8: true,
		op:   &ggml.NativeOp{Name: "gemm_grad_input_i8", Func: unsafe.Pointer(C.kern_op_gemm_grad_input_i8), FLOPs: integerFLOPs(1)},
		pack: &ggml.NativeOp{Name: "pack_i8", Func: unsafe.Pointer(C.kern_op_pack_i8), FLOPs: packFLOPs},
	}
	packInt = &ggml.NativeOp{Name: "pack_int", Func: unsafe.Pointer(C.kern_op_pack_int), FLOPs: packFLOPs}
)

func packFLOPs(_ shape, x []shape) float64 { return elements(x[0]) }

// integerFLOPs returns the FLOPs of triples contracted over a dimension of W.
func integerFLOPs(sum int) func(result shape, operands []shape) float64 {
	return func(result shape, operands []shape) float64 {
		depth := int64(0)
		for ; len(operands) >= 3; operands = operands[:len(operands)-3] { // the sum may be the first
			depth += operands[len(operands)-3][sum]
		}
		return 2 * elements(result) * float64(depth)
	}
}

// HasIntegers reports whether [GEMMInt] and [GEMMGradInputInt] have kernels for the processor: with AVX512-VNNI, AVX-VNNI
// or AVX2.
func HasIntegers() bool { return IntegerInstructions() != "" }

// IntegerInstructions names the instructions of those kernels; "" if [HasIntegers] is false. ONEDNN_MAX_CPU_ISA limits
// them, as it limits oneDNN's.
func IntegerInstructions() string {
	library() // oneDNN asks the system for AMX
	return C.GoString(C.kern_integer_instructions())
}

// HasI8 reports whether the processor multiplies 8-bit integers much faster than 16-bit ones: with VNNI or AMX.
func HasI8() bool { return HasIntegers() && bool(C.kern_has_i8()) }

// GEMMInt is [GEMM] with both operands rounded to 16-bit integers:
//
//	W [k, m, p, q], X [k, n, p, q] → sum + Σ Wᵀ·X [m, n, p, q], F32
//
// It adds to the sum in place, F32 and contiguous, and returns a view of it; if the sum is nil, the result is a tensor
// of its own. X is F32 or BF16, and W has any float or quantised type.
//
// The depth k is divided into blocks of up to 256. Each row of W and each column of X has a scale in each block, which
// limits its Euclidean norm to 46,300 and its elements to 16 bits. By the Cauchy–Schwarz inequality no sum of products
// exceeds 32 bits, so sums of a block are exact. Rounding changes a row or column by at most 1/4,000 of its norm, and by
// 1/10,000 if it has no outliers: a tenth of BF16's error. Blocks that are not finite, or too small for a scale, are
// multiplied in F32.
//
// It is one op of the CPU backend for each X and one for every three pairs, and its results do not depend on the number
// of threads. If [HasIntegers] is false, it is composed of GEMM and Add. It has no backward for [ggml.Graph.Backward].
func GEMMInt(c *ggml.Context, sum *ggml.Tensor, pairs ...Pair) *ggml.Tensor {
	return forwardInt.build(c, sum, pairs)
}

// GEMMGradInputInt is [GEMMGradInput] with both operands rounded to 16-bit integers as [GEMMInt] rounds:
//
//	W [k, m, p, q], dY [m, n, p, q] → sum + Σ W·dY [k, n, p, q], F32
//
// The sum, dY and W are as the sum, X and W of GEMMInt. It has no backward.
func GEMMGradInputInt(c *ggml.Context, sum *ggml.Tensor, pairs ...Pair) *ggml.Tensor {
	return gradInputInt.build(c, sum, pairs)
}

// GEMMGradInputI8 is [GEMMGradInputInt] in 8-bit integers:
//
//	W [k, m, p, q], dY [m, n, p, q] → sum + Σ W·dY [k, n, p, q], F32
//
// Both operands of a block of the depth m are rotated by a Hadamard matrix, which spreads outliers and leaves
// the product as it is (arXiv 2404.00456), and rounded with a scale for each row and column of a block; sums of a block
// are exact, in 32 bits. The error is about 1 % of a result for random operands. It averages out over the many elements
// of a gradient. Blocks that would be rounded by more than 2 %, that are not finite, or too small for a scale, are
// multiplied in F32.
//
// It is one op of the CPU backend for each dY and one for every three pairs, and its results do not depend on the number
// of threads. If [HasI8] is false, it is GEMMGradInputInt. It has no backward.
func GEMMGradInputI8(c *ggml.Context, sum *ggml.Tensor, pairs ...Pair) *ggml.Tensor {
	if !HasI8() {
		return GEMMGradInputInt(c, sum, pairs...)
	}
	return gradInputI8.build(c, sum, pairs)
}

func (g *integerGEMM) build(c *ggml.Context, sum *ggml.Tensor, pairs []Pair) *ggml.Tensor {
	if len(pairs) == 0 {
		return g.buildOp(c, sum, nil)
	}
	for part := range slices.Chunk(pairs, maxIntegerPairs) {
		sum = g.buildOp(c, sum, part)
	}
	return sum
}

func (g *integerGEMM) buildOp(c *ggml.Context, sum *ggml.Tensor, pairs []Pair) *ggml.Tensor {
	var all operands
	if sum != nil {
		all.add(sum)
	}
	for _, p := range pairs {
		all.add(p.W, p.X)
	}
	return c.BuildOp(g.op.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		b.Require(len(pairs) > 0, "there are no pairs to multiply")
		if !b.OK() {
			return nil
		}
		w, x := pairs[0].W, pairs[0].X
		g.require(b, pairs, pairs[0])
		result := shape{w.Dim(g.out), x.Dim(1), w.Dim(2), w.Dim(3)}
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
		case !HasIntegers():
			return b.Compose(func() *ggml.Tensor {
				y := g.gemm.build(c, ggml.PrecisionF32, pairs)
				if sum == nil {
					return y
				}
				return c.AddInPlace(sum, y)
			})
		}
		return b.Compose(func() *ggml.Tensor { return g.multiply(c, sum, result, pairs) })
	})
}

// multiply builds the product of checked operands.
func (g *integerGEMM) multiply(c *ggml.Context, sum *ggml.Tensor, result shape, pairs []Pair) *ggml.Tensor {
	var all operands
	if sum != nil {
		all.add(sum)
	}
	for _, p := range pairs {
		all.add(p.W, p.X, g.packColumns(c, p.X))
	}
	return c.BuildOp(g.op.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		if sum != nil {
			return b.NativeInPlace(g.op, params(C.struct_kern_gemm_int_params{first: 1}))
		}
		return b.Native(g.op, params(C.struct_kern_gemm_int_params{}), ggml.F32, result[:]...)
	})
}

// packColumns rounds the columns of x, and packs them as the op reads them: I8 [bytes, p · q].
func (g *integerGEMM) packColumns(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.BuildOp(g.pack.Name, []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor {
		bytes := int64(C.kern_packed_bytes(C.int64_t(x.Dim(0)), C.int64_t(x.Dim(1)), C.bool(g.i8)))
		return b.Native(g.pack, nil, ggml.I8, bytes, x.Dim(2)*x.Dim(3))
	})
}
