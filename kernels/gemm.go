package kernels

// #include "gemm.h"
import "C"

import (
	"math"
	"slices"
	"unsafe"

	"github.com/goggml/ggml"
)

// A Pair is a matrix W of any float or quantised type, and its factor X.
type Pair struct{ W, X *ggml.Tensor }

// An op holds MaxOperands operands; several ops add up more pairs.
const maxPairs = ggml.MaxOperands / 2

// shape is the shape of a tensor.
type shape = [ggml.MaxDims]int64

func elements(s shape) float64 { return float64(s[0]) * float64(s[1]) * float64(s[2]) * float64(s[3]) }

// A gemm is GEMM or the gradient of its input.
type gemm struct {
	op       *ggml.NativeOp
	sum, out int // dimensions of W: sum is contracted with ne0 of X, out becomes ne0 of the result
	builtin  func(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor
}

var (
	forward = &gemm{
		op:  &ggml.NativeOp{Name: "gemm", Func: unsafe.Pointer(C.kern_op_gemm), FLOPs: gemmFLOPs(0)},
		sum: 0, out: 1,
		builtin: func(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor { return c.MulMat(toF32(c, w), x) },
	}
	gradInput = &gemm{
		op:  &ggml.NativeOp{Name: "gemm_grad_input", Func: unsafe.Pointer(C.kern_op_gemm_grad_input), FLOPs: gemmFLOPs(1)},
		sum: 1, out: 0,
		builtin: func(c *ggml.Context, w, y *ggml.Tensor) *ggml.Tensor { return c.OutProd(toF32(c, w), c.Transpose(y)) },
	}
	gradWeight = &ggml.NativeOp{
		Name: "gemm_grad_weight", Func: unsafe.Pointer(C.kern_op_gemm_grad_weight),
		FLOPs: func(dw shape, x []shape) float64 { return 2 * elements(dw) * float64(x[0][1]) },
	}
	accumulateGradWeight = &ggml.NativeOp{
		Name: "accumulate_grad_weight", Func: unsafe.Pointer(C.kern_op_accumulate_grad_weight),
		FLOPs: func(dw shape, x []shape) float64 { return 2 * elements(dw) * float64(x[1][1]) },
	}
)

// gemmFLOPs returns the FLOPs of pairs contracted over a dimension of W.
func gemmFLOPs(sum int) func(result shape, operands []shape) float64 {
	return func(result shape, operands []shape) float64 {
		depth := int64(0)
		for i := 0; i < len(operands); i += 2 {
			depth += operands[i][sum]
		}
		return 2 * elements(result) * float64(depth)
	}
}

// GEMM multiplies matrices of any float or quantised type, and sums the products of all pairs:
//
//	W [k, m, p, q], X [k, n, p, q] → Σ Wᵀ·X [m, n, p, q], F32
//
// [ggml.Context.MulMat] rounds X to suit the type of W; GEMM converts W to the type of X, a tile at
// a time:
//
//   - with X in F32 the product is exact to F32, and so are its gradients
//     ([GEMMGradInput] and [AccumulateGradWeight]);
//   - with X in BF16, made by [CastBF16], W is rounded to BF16 too, and sums are in
//     F32. This is several times as fast if [FastestType] is BF16, and an error if
//     [HasBF16] is false.
//
// acc limits the precision loss of sums for X in F32. With PrecisionF16, if [HasF16Accumulation] is
// true, all matrices except F32 ones are rounded to F16. X is rounded to F16 too, scaled by powers
// of two so that any size fits. Sums of up to 256 products are in F16, which makes an error of
// about 0.2 %, and the rest is in F32; values too large for F16 are multiplied in F32. This is
// nearly twice as fast as F32, which any other precision selects.
//
// The products have the same shape, and all operands are contiguous. It is one op of the CPU
// backend for every four pairs, and its results do not depend on the number of threads; without a
// [GEMMLibrary] it is composed of Cast, MulMat and Add. Below five columns [GEMV] is faster. It has
// no backward for [ggml.Graph.Backward].
func GEMM(c *ggml.Context, acc ggml.Precision, pairs ...Pair) *ggml.Tensor {
	return forward.build(c, acc, pairs)
}

// GEMMGradInput returns the gradient of X in [GEMM], given the gradient dY of the result, which
// takes the place of X in the pairs:
//
//	W [k, m, p, q], dY [m, n, p, q] → Σ W·dY [k, n, p, q], F32
//
// dY is F32 or BF16, like X in GEMM, and acc has the same meaning. It has no backward.
func GEMMGradInput(c *ggml.Context, acc ggml.Precision, pairs ...Pair) *ggml.Tensor {
	return gradInput.build(c, acc, pairs)
}

func (g *gemm) build(c *ggml.Context, acc ggml.Precision, pairs []Pair) *ggml.Tensor {
	var y *ggml.Tensor
	for part := range slices.Chunk(pairs, maxPairs) {
		z := g.buildOp(c, acc, part, pairs[0])
		if y != nil {
			z = c.Add(y, z)
		}
		y = z
	}
	if y == nil {
		return g.buildOp(c, acc, nil, Pair{})
	}
	return y
}

// buildOp sums as many pairs as one op takes; all have the shapes of first.
func (g *gemm) buildOp(c *ggml.Context, acc ggml.Precision, pairs []Pair, first Pair) *ggml.Tensor {
	operands := make([]*ggml.Tensor, 0, 2*maxPairs)
	for _, p := range pairs {
		operands = append(operands, p.W, p.X)
	}
	return c.BuildOp(g.op.Name, operands, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireLibrary(b)
		requireAccumulation(b, acc)
		b.Require(len(pairs) > 0, "there are no pairs to multiply")
		g.require(b, pairs, first)
		switch {
		case !b.OK():
			return nil
		case !hasLibrary():
			return b.Compose(func() *ggml.Tensor { return g.fallback(c, pairs) })
		}
		w, x := pairs[0].W, pairs[0].X
		return b.Native(g.op, gemmParams(acc, ggml.F32), ggml.F32, w.Dim(g.out), x.Dim(1), w.Dim(2), w.Dim(3))
	})
}

// gemmParams returns the parameters of products; hType is the type of H in products with LoRA pairs.
func gemmParams(acc ggml.Precision, hType ggml.Type) []byte {
	p := C.struct_kern_gemm_params{h_type: C.int32_t(hType)}
	if acc == ggml.PrecisionF16 && HasF16Accumulation() {
		p.acc_f16 = 1
	}
	return params(p)
}

func requireAccumulation(b *ggml.OpBuilder, acc ggml.Precision) {
	switch acc {
	case ggml.PrecisionAny, ggml.PrecisionF32, ggml.PrecisionBF16, ggml.PrecisionF16:
		return
	}
	b.Require(false, "the precision of accumulation is %s; it must be any, f32, bf16 or f16", acc.String())
}

// require checks the operands of a sum of products.
func (g *gemm) require(b *ggml.OpBuilder, pairs []Pair, first Pair) {
	for _, p := range pairs {
		w, x := p.W, p.X
		requireNumeric(b, "W", w)
		requireFactor(b, "X", x)
		requireOperands(b, w, x)
		b.Require(w.Dim(g.sum) == x.Dim(0), "ne%d of W must be ne0 of X: they are %d and %d", g.sum, w.Dim(g.sum), x.Dim(0))
		b.Require(w.Dim(g.out) == first.W.Dim(g.out) && x.Dim(1) == first.X.Dim(1) && w.Dim(2) == first.W.Dim(2) && w.Dim(3) == first.W.Dim(3),
			"the products of all pairs must have the same shape")
	}
}

func requireNumeric(b *ggml.OpBuilder, what string, x *ggml.Tensor) {
	b.Require(x.Type().IsNumeric(), "%s has type %v, which is neither a float nor a quantised type", what, x.Type())
}

// requireFactor checks the type of the operand that determines the type of the GEMM.
func requireFactor(b *ggml.OpBuilder, what string, x *ggml.Tensor) {
	b.RequireType(what, x, ggml.F32, ggml.BF16)
	if b.OK() && x.Type() == ggml.BF16 {
		b.Require(HasBF16(), "GEMM in BF16 needs oneDNN and a processor with AVX512-BF16 or AMX; give F32")
	}
}

// requireOperands checks the two operands of any GEMM.
func requireOperands(b *ggml.OpBuilder, w, x *ggml.Tensor) {
	b.RequireContiguous("an operand", w)
	b.RequireContiguous("an operand", x)
	b.Require(w.Dim(2) == x.Dim(2) && w.Dim(3) == x.Dim(3), "ne2 and ne3 of both operands must be equal")
	b.Require(max(w.Dim(0), w.Dim(1), x.Dim(0), x.Dim(1)) <= math.MaxInt32, "a dimension is above %d", math.MaxInt32)
	const mc, few = 256, 8 // a dimension is divided into chunks of mc, or into a few
	rows, columns := float64(max(w.Dim(0), w.Dim(1))), float64(max(x.Dim(0), x.Dim(1)))
	requireChunks(b, float64(w.Dim(2))*float64(w.Dim(3))*(rows/mc+few)*(columns/mc+few))
}

// requireChunks limits the number of chunks of an op, a 32-bit count.
func requireChunks(b *ggml.OpBuilder, n float64) {
	b.Require(n <= 1<<30, "the operands are too large for one op; divide them")
}

// GEMMGradWeight returns the gradient of W in [GEMM], given X and the gradient of the result:
//
//	X [k, n, p, q], dY [m, n, p, q] → X·dYᵀ [k, m, p, q], F32
//
// X and dY are both F32 or both BF16. It has no backward.
func GEMMGradWeight(c *ggml.Context, x, dy *ggml.Tensor) *ggml.Tensor {
	return c.BuildOp(gradWeight.Name, []*ggml.Tensor{x, dy}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireGradient(b, x, dy)
		switch {
		case !b.OK():
			return nil
		case !hasLibrary():
			return b.Compose(func() *ggml.Tensor { return c.OutProd(x, dy) })
		}
		return b.Native(gradWeight, nil, ggml.F32, x.Dim(0), dy.Dim(0), x.Dim(2), x.Dim(3))
	})
}

// AccumulateGradWeight adds [GEMMGradWeight] to dW [k, m, p, q], F32 and contiguous,
// in place, and returns a view of it. It has no backward.
func AccumulateGradWeight(c *ggml.Context, dw, x, dy *ggml.Tensor) *ggml.Tensor {
	return c.BuildOp(accumulateGradWeight.Name, []*ggml.Tensor{dw, x, dy}, func(b *ggml.OpBuilder) *ggml.Tensor {
		b.RequireType("dW", dw, ggml.F32)
		b.RequireContiguous("dW", dw)
		requireGradient(b, x, dy)
		want := shape{x.Dim(0), dy.Dim(0), x.Dim(2), x.Dim(3)}
		b.Require(shapeOf(dw) == want, "the gradient has the shape %v", want)
		b.RequireNoOverlap(dw, x, dy)
		switch {
		case !b.OK():
			return nil
		case !hasLibrary():
			return b.Compose(func() *ggml.Tensor { return c.AddInPlace(dw, c.OutProd(x, dy)) })
		}
		return b.NativeInPlace(accumulateGradWeight, nil)
	})
}

func shapeOf(t *ggml.Tensor) shape { return shape{t.Dim(0), t.Dim(1), t.Dim(2), t.Dim(3)} }

// requireGradient checks the operands whose product is a gradient of W.
func requireGradient(b *ggml.OpBuilder, x, dy *ggml.Tensor) {
	requireLibrary(b)
	requireFactor(b, "X", x)
	requireFactor(b, "dY", dy)
	requireOperands(b, x, dy)
	b.Require(x.Type() == dy.Type(), "the types must be equal: X is %v, dY is %v", x.Type(), dy.Type())
	b.Require(x.Dim(1) == dy.Dim(1), "ne1 must be equal: X has %d, dY has %d", x.Dim(1), dy.Dim(1))
}
