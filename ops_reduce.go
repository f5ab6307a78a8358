package ggml

// #include "csrc/goggml.h"
import "C"

// Sum returns the sum of all elements of a, [1]. a is F32, F16 or BF16.
// C: ggml_sum.
func (c *Context) Sum(a *Tensor) *Tensor {
	op := c.begin("sum", a)
	op.types("a", a, floats...)
	op.contiguousRows("a", a)
	return op.done(C.goggml_op_sum(op.arena, a.ptr()))
}

// rows begins a reduction of F32 rows.
func (c *Context) rows(name string, a *Tensor) *opCall {
	op := c.begin(name, a)
	op.types("a", a, F32)
	op.contiguousRows("a", a)
	return op
}

// SumRows returns the sum of each row: [n, r, …] → [1, r, …]. a is F32.
// C: ggml_sum_rows.
func (c *Context) SumRows(a *Tensor) *Tensor {
	op := c.rows("sum_rows", a)
	return op.done(C.goggml_op_sum_rows(op.arena, a.ptr()))
}

// CumSum returns the running sums along each row. a is F32. It has no
// backward. C: ggml_cumsum.
func (c *Context) CumSum(a *Tensor) *Tensor {
	op := c.rows("cumsum", a)
	return op.done(C.goggml_op_cumsum(op.arena, a.ptr()))
}

// Mean returns the mean of each row: [n, r, …] → [1, r, …]. a is F32.
// C: ggml_mean.
func (c *Context) Mean(a *Tensor) *Tensor {
	op := c.rows("mean", a)
	return op.done(C.goggml_op_mean(op.arena, a.ptr()))
}

// ArgMax returns the index of the largest element of each row, I32:
// [n, r] → [r]. a is an F32 matrix. It has no backward. C: ggml_argmax.
func (c *Context) ArgMax(a *Tensor) *Tensor {
	op := c.rows("argmax", a)
	if op.arena != nil {
		op.require(a.NumDims() <= 2, "a has %d dimensions; it must be a matrix", a.NumDims())
	}
	return op.done(C.goggml_op_argmax(op.arena, a.ptr()))
}

// CountEqual counts the equal elements of two I32 tensors of one shape: an I64
// [1]. It has no backward. C: ggml_count_equal.
func (c *Context) CountEqual(a, b *Tensor) *Tensor {
	op := c.begin("count_equal", a, b)
	op.types("a", a, I32)
	op.types("b", b, I32)
	op.sameShape(a, b)
	op.contiguous("a", a)
	op.contiguous("b", b)
	return op.done(C.goggml_op_count_equal(op.arena, a.ptr(), b.ptr()))
}

// A SortOrder is the order of [Context.ArgSort]. C: enum ggml_sort_order.
type SortOrder int

// The sort orders.
const (
	Ascending  SortOrder = C.GGML_SORT_ORDER_ASC
	Descending SortOrder = C.GGML_SORT_ORDER_DESC
)

// ArgSort returns the indices that sort each row, I32 of a's shape. a is F32 with a uniform row
// stride. It has no backward. C: ggml_argsort.
func (c *Context) ArgSort(a *Tensor, order SortOrder) *Tensor {
	op := c.rows("argsort", a)
	op.uniformRowStride("a", a)
	op.require(order == Ascending || order == Descending, "there is no sort order %d", int(order))
	return op.done(C.goggml_op_argsort(op.arena, a.ptr(), C.enum_ggml_sort_order(order)))
}

// TopK returns the indices of the k largest elements of each row in no particular order, I32: [n,
// r, …] → [k, r, …]. a is F32 with a uniform row stride. It has no backward. C: ggml_top_k.
func (c *Context) TopK(a *Tensor, k int) *Tensor {
	op := c.rows("top_k", a)
	op.uniformRowStride("a", a)
	if op.arena != nil {
		op.require(k >= 1 && int64(k) <= a.ne[0], "k is %d; it must be 1 to ne0, which is %d", k, a.ne[0])
	}
	return op.done(C.goggml_op_top_k(op.arena, a.ptr(), C.int(k)))
}

// ArgSortTopK returns the indices of the k largest elements of each row, the largest first, I32 [k,
// …]: a view of the result of [Context.ArgSort]. a is F32 with a uniform row stride. It has no
// backward. C: ggml_argsort_top_k.
func (c *Context) ArgSortTopK(a *Tensor, k int) *Tensor {
	op := c.rows("argsort_top_k", a)
	op.uniformRowStride("a", a)
	if op.arena != nil {
		op.require(k >= 1 && int64(k) <= a.ne[0] && a.ne[0] < 1<<31, "k is %d; it must be 1 to ne0, which is %d", k, a.ne[0])
	}
	return op.done(C.goggml_op_argsort_top_k(op.arena, a.ptr(), C.int(k)))
}
