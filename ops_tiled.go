package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"os"
	"sync"
)

// chooseLibrary comes before any question about the library of products, which
// loads it. oneMKL puts its functions before those of all that is loaded later: the
// plugin of the BLAS device must have found its own by then, or it computes on one
// thread. What fails in loading plugins is told where one is needed.
var chooseLibrary = sync.OnceFunc(func() {
	if os.Getenv("GOGGML_BLAS") != "" {
		_ = LoadBackends()
	}
})

// TiledLibrary describes the library that multiplies matrices for the tiled
// products on the CPU, "" when none is found; then they are made of stock ops.
// It is oneDNN on x86, else OpenBLAS or another library with the CBLAS
// interface, whose own threads are turned off for all of the process. The
// environment variable GOGGML_BLAS names the file of another library, or none;
// with oneDNN, ONEDNN_MAX_CPU_ISA leaves instructions of the processor unused.
func TiledLibrary() string {
	chooseLibrary()
	if name := C.goggml_blas_name(); name != nil {
		return C.GoString(name)
	}
	return ""
}

// TiledBF16 tells whether the tiled products take BF16: with oneDNN on a
// processor that has instructions for it, AVX512-BF16 or AMX.
func TiledBF16() bool {
	chooseLibrary()
	return bool(C.goggml_blas_bf16())
}

// TiledF16 tells whether the tiled products of x in F32 can add up in F16, where
// [Tensor.SetAccPrecision] allows it: with oneMKL, which GOGGML_BLAS must name, on
// a processor with AVX512-FP16.
func TiledF16() bool {
	chooseLibrary()
	return bool(C.goggml_blas_f16())
}

// TiledType is the type in which the tiled products are fastest: BF16 with oneDNN
// on a processor with AMX, or with the AVX512-BF16 of AMD's; F16 where [TiledF16]
// is true; else F32. With Intel's AVX512-BF16 alone, products in BF16 take up to
// twice as long.
func TiledType() Type {
	chooseLibrary()
	switch {
	case bool(C.goggml_blas_fast_bf16()):
		return BF16
	case bool(C.goggml_blas_f16()):
		return F16
	}
	return F32
}

// MaxTiledPairs is the number of products that one tiled op can add up.
const MaxTiledPairs = maxCustom / 2

// TiledMulMat is [Context.MulMat] of a matrix of any float or quantised type:
// w [k, m, p, q], x [k, n, p, q] → [m, n, p, q], F32. Where MulMat rounds x to
// suit the type of w, this converts w to the type of x, a tile at a time:
//
//   - with x in F32 the product is exact to F32, and so are its gradients
//     (TiledMulMatX and TiledMulMatW);
//   - with x in BF16, made by RoundBF16, w is rounded to BF16 too, and the sum is in
//     F32. Where [TiledType] is BF16 that is several times as fast, and where
//     [TiledBF16] is false an error;
//   - with x in F32 and SetAccPrecision(PrecisionF16) for the result, where
//     [TiledF16] is true, all but matrices in F32 are rounded to F16, and so is x,
//     scaled by powers of two so that it can have any size. Sums of up to 256
//     products are in F16, which makes an error of about 0.2 %, and the rest is in
//     F32; what is too large for F16 is multiplied in F32. It is nearly twice as
//     fast as F32.
//
// More pairs of a matrix and its x may follow, at most [MaxTiledPairs] in all:
// their products, of the same shape, are added. All operands are contiguous.
//
// With a [TiledLibrary] it is an op of the CPU backend, and its results do not
// depend on the number of threads; otherwise it is made of Cast, MulMat and Add.
// Of fewer than five columns [Context.StreamMulMat] is faster. It has no backward
// for [Graph.Backward].
func (c *Context) TiledMulMat(w, x *Tensor, more ...*Tensor) *Tensor {
	op := c.beginPairs("tiled_mul_mat", append([]*Tensor{w, x}, more...), 0, 1)
	if TiledLibrary() == "" {
		return op.composed(func() *Tensor {
			return c.stockPairs(w, x, more, func(w, x *Tensor) *Tensor { return c.MulMat(c.asF32(w), x) })
		})
	}
	return op.build(func(pairs **C.struct_ggml_tensor, n C.int) C.goggml_tensor {
		return C.goggml_op_tiled_mul_mat(op.arena, pairs, n)
	})
}

// TiledMulMatX returns the gradient of x in [Context.TiledMulMat], given that
// of the result: w [k, m, p, q], y [m, n, p, q] → [k, n, p, q]. y is F32 or BF16
// as x is there. More pairs may follow. It has no backward.
func (c *Context) TiledMulMatX(w, y *Tensor, more ...*Tensor) *Tensor {
	op := c.beginPairs("tiled_mul_mat_x", append([]*Tensor{w, y}, more...), 1, 0)
	if TiledLibrary() == "" {
		return op.composed(func() *Tensor {
			return c.stockPairs(w, y, more, func(w, y *Tensor) *Tensor { return c.OutProd(c.asF32(w), c.Transpose(y)) })
		})
	}
	return op.build(func(pairs **C.struct_ggml_tensor, n C.int) C.goggml_tensor {
		return C.goggml_op_tiled_mul_mat_x(op.arena, pairs, n)
	})
}

// TiledMulMatW returns the gradient of w in [Context.TiledMulMat], given x and
// the gradient of the result: x [k, n, p, q], y [m, n, p, q] → [k, m, p, q], F32.
// x and y are both F32 or both BF16. It has no backward.
func (c *Context) TiledMulMatW(x, y *Tensor) *Tensor {
	op := c.begin("tiled_mul_mat_w", x, y)
	op.gradient(x, y)
	if TiledLibrary() == "" {
		return op.composed(func() *Tensor { return c.OutProd(x, y) })
	}
	return op.done(C.goggml_op_tiled_mul_mat_w(op.arena, x.ptr(), y.ptr()))
}

// AddTiledMulMatW adds what [Context.TiledMulMatW] returns to dw, in place, and
// returns a view of it: dw [k, m, p, q], F32 and contiguous. It has no backward.
func (c *Context) AddTiledMulMatW(dw, x, y *Tensor) *Tensor {
	op := c.begin("add_tiled_mul_mat_w", dw, x, y)
	op.types("dw", dw, F32)
	op.fresh("dw", dw)
	op.gradient(x, y)
	if op.arena != nil {
		want := [4]int64{x.ne[0], y.ne[0], x.ne[2], x.ne[3]}
		op.require(dw.ne == want, "the gradient has the shape %v", want)
		op.apart(dw, x, y)
	}
	if TiledLibrary() == "" {
		return op.composed(func() *Tensor { return c.AddInPlace(dw, c.OutProd(x, y)) })
	}
	return op.done(C.goggml_op_add_tiled_mul_mat_w(op.arena, dw.ptr(), x.ptr(), y.ptr()))
}

// gradient checks the operands of which a gradient of w is the product.
func (op *opCall) gradient(x, y *Tensor) {
	op.multiplied("x", x)
	op.multiplied("y", y)
	op.pair(x, y)
	if op.arena != nil {
		op.require(x.typ == y.typ, "the types must be equal: x is %v, y is %v", x.typ, y.typ)
		op.require(x.ne[1] == y.ne[1], "ne1 must be equal: x has %d, y has %d", x.ne[1], y.ne[1])
	}
}

// beginPairs begins a sum of products: dimension in of each matrix is summed with
// ne0 of what it multiplies, and dimension out makes ne0 of the result.
func (c *Context) beginPairs(name string, operands []*Tensor, in, out int) *opCall {
	n := len(operands)
	op := c.begin(name, operands[:min(n, 2*MaxTiledPairs)]...)
	op.require(n%2 == 0, "the operands must be pairs")
	op.require(n <= 2*MaxTiledPairs, "there are %d pairs; at most %d can be added up", n/2, MaxTiledPairs)
	op.tiledPairs(op.operands, in, out)
	return op
}

// tiledPairs checks the operands of a sum of products.
func (op *opCall) tiledPairs(pairs []*Tensor, in, out int) {
	for rest := pairs; len(rest) > 1 && op.arena != nil; rest = rest[2:] {
		w0, x0, w, x := pairs[0], pairs[1], rest[0], rest[1]
		op.require(w.typ.isFloat(), "a matrix has no float or quantised type")
		op.multiplied("what a matrix multiplies", x)
		op.pair(w, x)
		op.require(w.ne[in] == x.ne[0], "ne%d of a matrix must be ne0 of what it multiplies: they are %d and %d", in, w.ne[in], x.ne[0])
		op.require(w.ne[out] == w0.ne[out] && x.ne[1] == x0.ne[1] && w.ne[2] == w0.ne[2] && w.ne[3] == w0.ne[3], "the products must have equal shapes")
	}
}

// multiplied checks the type of an operand that decides that of the product.
func (op *opCall) multiplied(name string, x *Tensor) {
	op.types(name, x, F32, BF16)
	op.require(x == nil || x.typ != BF16 || TiledBF16(), "products of BF16 need oneDNN and a processor with AVX512-BF16 or AMX; give F32")
}

// pair checks what the two operands of any tiled product have in common.
func (op *opCall) pair(a, b *Tensor) {
	op.fresh("an operand", a)
	op.fresh("an operand", b)
	if op.arena == nil {
		return
	}
	op.require(a.ne[2] == b.ne[2] && a.ne[3] == b.ne[3], "ne2 and ne3 of both operands must be equal")
	const most = 1<<31 - 1
	op.require(max(a.ne[0], a.ne[1], b.ne[0], b.ne[1]) <= most, "a dimension is above %d", most)
	const unit, few = 256, 8 // a dimension is cut into such units, or into few
	rows, columns := float64(max(a.ne[0], a.ne[1])), float64(max(b.ne[0], b.ne[1]))
	op.pieces(float64(a.ne[2]) * float64(a.ne[3]) * (rows/unit + few) * (columns/unit + few))
}

// pieces bounds the number of tasks that an op is cut into, which csrc/tasks.c
// counts in 32 bits.
func (op *opCall) pieces(n float64) {
	op.require(n <= 1<<30, "the operands are too large for one op; divide them")
}

// build hands the operands to a C function that takes them as an array.
func (op *opCall) build(f func(operands **C.struct_ggml_tensor, n C.int) C.goggml_tensor) *Tensor {
	var x [maxCustom]*C.struct_ggml_tensor
	if op.arena != nil {
		for i, t := range op.operands {
			x[i] = t.ptr()
		}
	}
	return op.done(f(&x[0], C.int(len(op.operands))))
}

// stockPairs adds up products that are made of stock ops.
func (c *Context) stockPairs(w, x *Tensor, more []*Tensor, product func(w, x *Tensor) *Tensor) *Tensor {
	sum := product(w, x)
	for ; len(more) > 1; more = more[2:] {
		sum = c.Add(sum, product(more[0], more[1]))
	}
	return sum
}

func (c *Context) asF32(t *Tensor) *Tensor {
	if t != nil && t.typ == F32 {
		return t
	}
	return c.Cast(t, F32)
}
