package ggml

// #include "csrc/goggml.h"
import "C"

// MulMat returns the product of each column of b with the rows of a:
//
//	a [k, m, p, q], b [k, n, p·r, q·s] → [m, n, p·r, q·s], F32
//	result[i, j] = Σₖ a[k, i] · b[k, j]
//
// Both are stored along k: in row-major notation it is b·aᵀ. a may have any float or quantised
// type, b is F32 (or F16 if a is). Rows are contiguous. The CPU converts b to the type that a's dot
// product takes. The gradient of a shared a (r > 1) requires ne3 = 1. C: ggml_mul_mat.
func (c *Context) MulMat(a, b *Tensor) *Tensor {
	op := c.begin("mul_mat", a, b)
	op.require(a == nil || a.typ.IsNumeric(), "a must have a float or quantised type")
	op.types("b", b, F32, F16, BF16)
	if op.arena != nil {
		op.require(a.ne[0] == b.ne[0], "ne0 must be equal: a has %d, b has %d", a.ne[0], b.ne[0])
		op.require(b.ne[2]%a.ne[2] == 0 && b.ne[3]%a.ne[3] == 0, "ne2 and ne3 of b must be multiples of ne2 and ne3 of a")
		op.require(b.typ == F32 || b.typ == a.typ, "b must be f32, or have the type of a")
	}
	op.contiguousRows("a", a)
	op.contiguousRows("b", b)
	op.notTransposed("a", a)
	return op.done(C.goggml_op_mul_mat(op.arena, a.ptr(), b.ptr()))
}

func (op *opCall) notTransposed(what string, t *Tensor) {
	if op.arena != nil {
		op.require(!bool(C.ggml_is_transposed(t.t)), "%s must not be transposed; call Cont", what)
	}
}

// MulMatID is MulMat with a matrix selected for each column, for mixtures of experts:
//
//	as [k, m, experts], b [k, used, n], ids [used, n] (I32) → [m, used, n], F32
//
// The experts of a column must differ, as a router's do: a repeated expert makes a CUDA device
// unusable. It has no backward. C: ggml_mul_mat_id.
func (c *Context) MulMatID(as, b, ids *Tensor) *Tensor {
	ids = c.inRange(ids, as.Dim(2))
	op := c.begin("mul_mat_id", as, b, ids)
	op.require(as == nil || as.typ.IsNumeric(), "as must have a float or quantised type")
	op.types("b", b, F32)
	op.types("ids", ids, I32)
	if op.arena != nil {
		op.require(as.ne[0] == b.ne[0], "ne0 must be equal: as has %d, b has %d", as.ne[0], b.ne[0])
		op.require(as.ne[3] == 1 && b.ne[3] == 1, "as and b have at most 3 dimensions")
		op.require(ids.ne[2] == 1 && ids.ne[3] == 1 && ids.ne[1] == b.ne[2], "ids must be [used, n] with n = ne2 of b")
		op.require(ids.ne[0]%b.ne[1] == 0, "ne0 of ids must be a multiple of ne1 of b")
	}
	op.contiguousRows("as", as)
	op.contiguousRows("b", b)
	op.notTransposed("as", as)
	return op.done(C.goggml_op_mul_mat_id(op.arena, as.ptr(), b.ptr(), ids.ptr()))
}

// OutProd returns the sum of outer products over the columns:
//
//	a [m, k, p, q], b [n, k, p·r, q·s] → [m, n, p·r, q·s], F32
//	result[i, j] = Σₖ a[i, k] · b[j, k]
//
// a is F32, or F16 or quantised with r = s = 1; b is F32 and may be transposed. It
// has no backward. C: ggml_out_prod.
func (c *Context) OutProd(a, b *Tensor) *Tensor {
	op := c.begin("out_prod", a, b)
	op.require(a == nil || a.typ.IsNumeric() && a.typ != BF16 && a.typ != F8E4M3, "a has type %v; it must be f32, f16 or quantised", a.typeOr(F32))
	op.types("b", b, F32)
	if op.arena != nil {
		op.require(a.ne[1] == b.ne[1], "ne1 must be equal: a has %d, b has %d", a.ne[1], b.ne[1])
		op.require(b.ne[2]%a.ne[2] == 0 && b.ne[3]%a.ne[3] == 0, "ne2 and ne3 of b must be multiples of ne2 and ne3 of a")
		op.require(a.typ == F32 || b.ne[2] == a.ne[2] && b.ne[3] == a.ne[3], "ne2 and ne3 of b and an a that is not f32 must be equal")
	}
	op.contiguousRows("a", a)
	op.notTransposed("a", a)
	return op.done(C.goggml_op_out_prod(op.arena, a.ptr(), b.ptr()))
}

// Diag makes a diagonal matrix of each row: [n, 1, …] → [n, n, …]. a is F32.
// It has no backward. C: ggml_diag.
func (c *Context) Diag(a *Tensor) *Tensor {
	op := c.rows("diag", a)
	if op.arena != nil {
		op.require(a.ne[1] == 1, "ne1 is %d; it must be 1", a.ne[1])
	}
	return op.done(C.goggml_op_diag(op.arena, a.ptr()))
}

// A Triangle is a part of a square matrix with columns i0 and rows i1.
// C: enum ggml_tri_type.
type Triangle int

// The triangles.
const (
	UpperDiag Triangle = C.GGML_TRI_TYPE_UPPER_DIAG // i0 ≥ i1
	Upper     Triangle = C.GGML_TRI_TYPE_UPPER      // i0 > i1
	LowerDiag Triangle = C.GGML_TRI_TYPE_LOWER_DIAG // i0 ≤ i1
	Lower     Triangle = C.GGML_TRI_TYPE_LOWER      // i0 < i1
)

// Tri keeps a triangle of each matrix and sets the rest to 0. a [n, n, …] is
// contiguous F32. It has no backward. C: ggml_tri.
func (c *Context) Tri(a *Tensor, part Triangle) *Tensor {
	op := c.begin("tri", a)
	op.types("a", a, F32)
	op.contiguous("a", a)
	op.require(part >= UpperDiag && part <= Lower, "there is no triangle %d", int(part))
	if op.arena != nil {
		op.require(a.ne[0] == a.ne[1], "ne0 and ne1 are %d and %d; they must be equal", a.ne[0], a.ne[1])
	}
	return op.done(C.goggml_op_tri(op.arena, a.ptr(), C.enum_ggml_tri_type(part)))
}

// SolveTri returns the x for which a·x = b, with a lower triangular:
//
//	a [n, n, p, q], b [m, n, p, q] → x [m, n, p, q], rows along dimension 1
//
// Elements above a's diagonal are not read, and no element of the diagonal may be 0. Both are
// contiguous F32. It has no backward. C: ggml_solve_tri.
func (c *Context) SolveTri(a, b *Tensor) *Tensor {
	op := c.begin("solve_tri", a, b)
	op.types("a", a, F32)
	op.types("b", b, F32)
	op.contiguous("a", a)
	op.contiguous("b", b)
	if op.arena != nil {
		op.require(a.ne[0] == a.ne[1], "ne0 and ne1 of a are %d and %d; they must be equal", a.ne[0], a.ne[1])
		op.require(a.ne[1] == b.ne[1] && a.ne[2] == b.ne[2] && a.ne[3] == b.ne[3], "ne1, ne2 and ne3 of a and b must be equal")
	}
	return op.done(C.goggml_op_solve_tri(op.arena, a.ptr(), b.ptr(), true, true, false))
}
