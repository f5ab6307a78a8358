package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"math"
	"slices"
)

// Reshape returns a view of a with another shape and the same number of elements. a is contiguous.
// One size may be -1: it is inferred from the others. C: ggml_reshape_1d to ggml_reshape_4d;
// ggml_reshape with the shape of b.
func (c *Context) Reshape(a *Tensor, shape ...int64) *Tensor {
	op := c.begin("reshape", a)
	if op.arena != nil {
		op.require(bool(C.ggml_is_contiguous(a.t)), "a must be contiguous; call Cont")
	}
	ne := op.reshaped(a, shape)
	switch len(shape) {
	case 1:
		return op.done(C.goggml_op_reshape_1d(op.arena, a.ptr(), ne[0]))
	case 2:
		return op.done(C.goggml_op_reshape_2d(op.arena, a.ptr(), ne[0], ne[1]))
	case 3:
		return op.done(C.goggml_op_reshape_3d(op.arena, a.ptr(), ne[0], ne[1], ne[2]))
	}
	return op.done(C.goggml_op_reshape_4d(op.arena, a.ptr(), ne[0], ne[1], ne[2], ne[3]))
}

// reshaped requires a shape with as many elements as a, and returns its sizes.
func (op *opCall) reshaped(a *Tensor, shape []int64) [4]C.int64_t {
	ne := [4]C.int64_t{1, 1, 1, 1}
	if op.arena == nil {
		return ne
	}
	shape = inferred(shape, a.NumElements())
	op.checkShape(a.typ, shape)
	n := int64(1)
	for i := range min(len(shape), MaxDims) {
		ne[i] = C.int64_t(shape[i])
		n *= shape[i]
	}
	op.require(n == a.NumElements(), "the shape %v has %d elements, a has %d", shape, n, a.NumElements())
	return ne
}

// inferred replaces the first size of -1 by the size that gives n elements.
func inferred(shape []int64, n int64) []int64 {
	shape = append([]int64(nil), shape...)
	unknown, known := -1, int64(1)
	for i, s := range shape {
		if s == -1 && unknown < 0 {
			unknown = i
			continue
		}
		known *= s
	}
	if unknown >= 0 && known > 0 && n%known == 0 {
		shape[unknown] = n / known
	}
	return shape
}

func (t *Tensor) typeOr(other Type) Type {
	if t == nil {
		return other
	}
	return t.typ
}

// View returns a view of part of a: a shape, the strides of dimensions 1, 2, … in bytes (missing
// ones follow from those before, without gaps), and an offset in bytes from a's start. C:
// ggml_view_1d to ggml_view_4d.
func (c *Context) View(a *Tensor, shape, strides []int64, offset int64) *Tensor {
	op := c.begin("view", a)
	op.checkShape(a.typeOr(F32), shape)
	if op.arena == nil {
		return op.done(C.goggml_tensor{})
	}
	ne := [4]int64{1, 1, 1, 1}
	copy(ne[:], shape)
	op.require(!a.cutsBlocks(), "the blocks of a's type do not lie along its rows; make the view from a's source")
	op.require(len(strides) < MaxDims, "there are %d strides; at most 3 can be given", len(strides))
	row := a.typ.RowSize(ne[0])
	nb := [4]int64{a.typ.BlockBytes(), row, row * ne[1], row * ne[1] * ne[2]}
	for i, s := range strides {
		if i+1 >= MaxDims {
			break
		}
		op.require(s >= 0 && s < maxBytes && s%a.typ.BlockBytes() == 0, "stride %d is %d; it must be a multiple of the block size %d", i+1, s, a.typ.BlockBytes())
		nb[i+1] = s
		for j := i + 2; j < MaxDims; j++ {
			nb[j] = nb[j-1] * ne[j-1]
		}
	}
	size := int64(C.ggml_nbytes(a.t))
	op.require(offset >= 0 && offset <= size && offset%a.typ.BlockBytes() == 0, "the offset is %d; it must be a multiple of the block size %d within the %d bytes of a", offset, a.typ.BlockBytes(), size)
	end := float64(offset) + float64(row)
	for i := 1; i < MaxDims; i++ {
		end += float64(ne[i]-1) * float64(nb[i])
	}
	op.require(end <= float64(size), "the view ends at byte %.0f, a has %d", end, size)
	all := float64(row) * float64(ne[1]) * float64(ne[2]) * float64(ne[3]) // ggml limits it as if no elements shared memory
	op.require(all == 0 || float64(offset)+all <= float64(size),
		"the elements of the view share memory and take %.0f bytes apart, of which a has %d from the offset on; copy parts of a by Concat or GetRows", all, size-offset)
	return op.done(C.goggml_op_view_4d(op.arena, a.ptr(), C.int64_t(ne[0]), C.int64_t(ne[1]), C.int64_t(ne[2]), C.int64_t(ne[3]),
		C.size_t(nb[1]), C.size_t(nb[2]), C.size_t(nb[3]), C.size_t(offset)))
}

// Permute returns a view with the dimensions permuted: dimension i of a becomes dimension axes[i]
// of the result. C: ggml_permute.
func (c *Context) Permute(a *Tensor, axes [4]int) *Tensor {
	op := c.begin("permute", a)
	var seen [4]bool
	for _, axis := range axes {
		if axis < 0 || axis > 3 || seen[axis] {
			op.require(false, "the axes %v are not a permutation of 0, 1, 2, 3", axes)
			break
		}
		seen[axis] = true
	}
	return op.done(C.goggml_op_permute(op.arena, a.ptr(), C.int(axes[0]), C.int(axes[1]), C.int(axes[2]), C.int(axes[3])))
}

// Transpose returns a view with dimensions 0 and 1 exchanged.
// C: ggml_transpose.
func (c *Context) Transpose(a *Tensor) *Tensor {
	op := c.begin("transpose", a)
	return op.done(C.goggml_op_transpose(op.arena, a.ptr()))
}

// Cont returns a contiguous copy of a, in the given shape if any, which must have as many elements.
// a is F32, F16, BF16, I32 or I64; quantised tensors are contiguous already. C: ggml_cont and its
// 1d to 4d forms.
func (c *Context) Cont(a *Tensor, shape ...int64) *Tensor {
	op := c.begin("cont", a)
	op.copyable(a)
	if len(shape) == 0 {
		return op.done(C.goggml_op_cont(op.arena, a.ptr()))
	}
	ne := op.reshaped(a, shape)
	return op.done(C.goggml_op_cont_4d(op.arena, a.ptr(), ne[0], ne[1], ne[2], ne[3]))
}

// copyable requires a tensor that ggml copies without conversion: any layout of a type without
// blocks, or a contiguous tensor.
func (op *opCall) copyable(a *Tensor) {
	if op.arena != nil && !slices.Contains([]Type{F32, F16, BF16, I16, I32, I64}, a.typ) {
		op.contiguous("a of type "+a.typ.String(), a)
	}
}

// Copy writes a to b, converting to b's type, and returns a view of b. Both have the same number of
// elements. A quantised a requires an F32 b. A quantised b requires that a is F32, F16 or BF16 with
// contiguous rows and b's ne0, and that b is contiguous. C: ggml_cpy.
func (c *Context) Copy(a, b *Tensor) *Tensor {
	op := c.begin("cpy", a, b)
	if op.arena != nil {
		op.require(a.NumElements() == b.NumElements(), "a has %d elements, b has %d", a.NumElements(), b.NumElements())
		op.convertible(a, b.typ)
		op.copyBlocks(a, b)
	}
	op.writable("b", b)
	return op.done(C.goggml_op_cpy(op.arena, a.ptr(), b.ptr()))
}

// copyBlocks requires, for copies from or to quantised types, a layout that the CPU supports: with
// others it would stop, or write past the end of b.
func (op *opCall) copyBlocks(a, b *Tensor) {
	switch {
	case op.arena == nil:
	case a.typ == b.typ && a.typ.IsQuantized():
		sameRows := a.ne == b.ne && a.hasContiguousRows() && b.hasContiguousRows()
		ok := sameRows || !b.contiguous() || a.contiguous()
		op.require(ok, "a must be contiguous, or have b's shape and contiguous rows")
	case a.typ.IsQuantized():
		op.contiguousRows("b", b)
		op.require(b.ne[0]%a.typ.BlockSize() == 0 || b.contiguous(), "b must be contiguous, or its ne0 a multiple of the block size %d", a.typ.BlockSize())
		op.require(a.NumElements() < math.MaxUint32, "a has %d elements; the limit is %d", a.NumElements(), uint32(math.MaxUint32))
	case b.typ.IsQuantized():
		op.contiguousRows("a", a)
		op.contiguous("b", b)
		op.require(a.ne[0] == b.ne[0], "ne0 must be equal: a has %d, b has %d", a.ne[0], b.ne[0])
	}
}

// contiguous is IsContiguous for a tensor whose context is retained.
func (t *Tensor) contiguous() bool { return bool(C.ggml_is_contiguous(t.t)) && !t.cutsBlocks() }

// convertible requires a conversion that the CPU supports.
func (op *opCall) convertible(a *Tensor, to Type) {
	from := a.typ
	plain := func(t Type) bool { return t == F32 || t == F16 || t == BF16 }
	ok := from == to ||
		from == F8E4M3 && plain(to) ||
		from == F32 && to == I32 ||
		plain(from) && to.IsNumeric() ||
		from == I32 && to == F32 ||
		from.IsNumeric() && to == F32
	op.require(ok, "there is no conversion from %v to %v; go through f32", from, to)
	if to != from && to.IsQuantized() || from.IsQuantized() {
		op.contiguousRows("a", a)
	}
}

// Cast returns a copy of a in another type; see Copy. C: ggml_cast.
func (c *Context) Cast(a *Tensor, t Type) *Tensor {
	op := c.begin("cast", a)
	if op.arena != nil {
		op.checkShape(t, a.ne[:])
		op.convertible(a, t)
	}
	return op.done(C.goggml_op_cast(op.arena, a.ptr(), C.goggml_type(t)))
}

// Dup returns a copy of a. a is contiguous, or has type F32, F16, BF16, I16, I32 or I64. C:
// ggml_dup.
func (c *Context) Dup(a *Tensor) *Tensor {
	op := c.begin("dup", a)
	op.copyable(a)
	return op.done(C.goggml_op_dup(op.arena, a.ptr()))
}

// Repeat returns a repeated to a shape. Each size of it is a multiple of a's. a is F32, F16,
// BF16, I32 or I16 with contiguous rows. C: ggml_repeat, ggml_repeat_4d.
func (c *Context) Repeat(a *Tensor, shape ...int64) *Tensor {
	op := c.begin("repeat", a)
	op.types("a", a, F32, F16, BF16, I16, I32)
	op.contiguousRows("a", a)
	op.checkShape(a.typeOr(F32), shape)
	ne := [4]int64{1, 1, 1, 1}
	copy(ne[:], shape)
	for i := 0; i < MaxDims && op.arena != nil; i++ {
		op.require(ne[i]%a.ne[i] == 0, "dimension %d: %d is not a multiple of %d", i, ne[i], a.ne[i])
	}
	return op.done(C.goggml_op_repeat_4d(op.arena, a.ptr(), C.int64_t(ne[0]), C.int64_t(ne[1]), C.int64_t(ne[2]), C.int64_t(ne[3])))
}

// RepeatBack sums the repetitions: a has a shape to which b can be repeated, and the result has b's
// shape. Both are F32; only b's shape is used. C: ggml_repeat_back.
func (c *Context) RepeatBack(a, b *Tensor) *Tensor {
	op := c.begin("repeat_back", a, b)
	op.types("a", a, F32)
	op.contiguousRows("a", a)
	op.repeats(b, a)
	return op.done(C.goggml_op_repeat_back(op.arena, a.ptr(), b.ptr()))
}

// Concat joins a and b along a dimension; types and other sizes must be equal. Any type is valid;
// quantised types require contiguous rows. It has no backward. C: ggml_concat.
func (c *Context) Concat(a, b *Tensor, dim int) *Tensor {
	op := c.begin("concat", a, b)
	op.require(a == nil || a.typ.IsNumeric() || !a.typ.IsQuantized(), "a has type %v, which only the first operand of a product can have", a.typeOr(F32))
	op.require(dim >= 0 && dim < MaxDims, "there is no dimension %d", dim)
	if op.arena != nil {
		op.require(a.typ == b.typ, "the types must be equal")
	}
	if op.arena != nil && a.typ.BlockSize() > 1 {
		op.contiguousRows("a", a)
		op.contiguousRows("b", b)
	}
	if op.arena != nil {
		for i := range MaxDims {
			op.require(i == dim || a.ne[i] == b.ne[i], "dimension %d must be equal: a has %d, b has %d", i, a.ne[i], b.ne[i])
		}
	}
	return op.done(C.goggml_op_concat(op.arena, a.ptr(), b.ptr(), C.int(dim)))
}

// part begins an op on the part of a with b's shape, the given offset, and the given strides of
// dimensions 1 to 3, all in bytes. It sets strides that are 0 to a's. Both are F32, unless types
// are given.
func (c *Context) part(name string, a, b *Tensor, strides *[3]int64, offset int64, types ...Type) *opCall {
	op := c.begin(name, a, b)
	op.types("a", a, types...)
	op.types("b", b, a.typeOr(F32))
	op.contiguous("a", a)
	op.contiguousRows("b", b)
	if op.arena == nil {
		return op
	}
	op.require(offset >= 0 && offset%4 == 0, "the offset is %d; it must be a multiple of 4 bytes", offset)
	op.require(offset < 1<<30, "the offset is %d; it must be below %d", offset, 1<<30)
	end := float64(offset) + 4*float64(b.ne[0])
	for i, s := range strides {
		op.require(s >= 0 && s < maxBytes && s%4 == 0, "stride %d is %d; it must be a multiple of 4 bytes", i+1, s)
		if s == 0 {
			s = int64(a.t.nb[i+1])
			strides[i] = s
		}
		op.require(b.ne[i+1] == 1 || s <= math.MaxInt32, "stride %d is %d; it can be at most %d", i+1, s, math.MaxInt32)
		end += float64(b.ne[i+1]-1) * float64(s)
	}
	op.require(end <= 4*float64(a.NumElements()), "the part ends at byte %.0f, a has %d", end, 4*a.NumElements())
	nb := [MaxDims]int64{4, strides[0], strides[1], strides[2]}
	op.require(!overlaps(b.ne, nb, 4), "elements of the part share memory: with the shape %v the strides are too short", b.ne)
	return op
}

// Acc returns a copy of a with b added to a part of it. The part has b's shape, the given strides
// of dimensions 1 to 3 (0 means a's stride) and the given offset, in bytes. Both are F32, a is
// contiguous. C: ggml_acc.
func (c *Context) Acc(a, b *Tensor, strides [3]int64, offset int64) *Tensor {
	op := c.part("acc", a, b, &strides, offset, F32)
	return op.done(C.goggml_op_acc(op.arena, a.ptr(), b.ptr(), C.size_t(strides[0]), C.size_t(strides[1]), C.size_t(strides[2]), C.size_t(offset)))
}

// Set returns a copy of a with a part of it replaced by b; see Acc. Both may
// also be I32.
// C: ggml_set, ggml_set_1d, ggml_set_2d.
func (c *Context) Set(a, b *Tensor, strides [3]int64, offset int64) *Tensor {
	op := c.part("set", a, b, &strides, offset, F32, I32)
	return op.done(C.goggml_op_set(op.arena, a.ptr(), b.ptr(), C.size_t(strides[0]), C.size_t(strides[1]), C.size_t(strides[2]), C.size_t(offset)))
}

// GetRows returns rows of a, dequantised to F32 (I32 stays):
//
//	a [n, rows, p, q], ids [k, p, q] (I32) → [n, k, p, q]
//
// An index out of range is an error of the compute. Indices that the graph computes are checked by
// a node of the CPU, so on a GPU such a graph needs a [Scheduler]. The results of ArgMax, ArgSort
// and TopK cannot be out of range and need no check. C: ggml_get_rows.
func (c *Context) GetRows(a, ids *Tensor) *Tensor {
	ids = c.inRange(ids, a.Dim(1))
	op := c.begin("get_rows", a, ids)
	op.require(a == nil || a.typ.IsNumeric() || a.typ == I32, "a must have a float, quantised or i32 type")
	op.types("ids", ids, I32)
	op.contiguousRows("a", a)
	if op.arena != nil {
		op.require(a.ne[2] == ids.ne[1] && a.ne[3] == ids.ne[2] && ids.ne[3] == 1, "ne1 and ne2 of ids must be ne2 and ne3 of a")
	}
	return op.done(C.goggml_op_get_rows(op.arena, a.ptr(), ids.ptr()))
}

// GetRowsBack returns the gradient of a in [Context.GetRows]: zeros of the shape of a, with the
// rows of grad, F32 or F16, added at ids. The result is F32. It has no backward. C:
// ggml_get_rows_back.
func (c *Context) GetRowsBack(grad, ids, a *Tensor) *Tensor {
	ids = c.inRange(ids, a.Dim(1))
	op := c.begin("get_rows_back", grad, ids, a)
	op.types("grad", grad, F32, F16)
	op.types("ids", ids, I32)
	if op.arena != nil {
		op.require(a.NumDims() <= 2 && ids.NumDims() == 1, "a must be a matrix, ids a vector")
		op.require(grad.ne[0] == a.ne[0], "ne0 must be equal: grad has %d, a has %d", grad.ne[0], a.ne[0])
		op.require(grad.ne[1] == ids.ne[0] && grad.NumDims() <= 2, "grad must have a row for each index")
	}
	return op.done(C.goggml_op_get_rows_back(op.arena, grad.ptr(), ids.ptr(), a.ptr()))
}

// SetRows writes rows of b into a, converting to a's type, and returns a view
// of a:
//
//	a [n, rows, p, q], b [n, k, p, q] (F32 or F16), ids [k, p, q] (I64 or I32)
//
// No index may occur twice. It has no backward for a. C: ggml_set_rows.
func (c *Context) SetRows(a, b, ids *Tensor) *Tensor {
	ids = c.inRange(ids, a.Dim(1))
	op := c.begin("set_rows", a, b, ids)
	op.require(a == nil || a.typ.IsNumeric(), "a must have a float or quantised type")
	op.types("b", b, F32, F16)
	op.types("ids", ids, I64, I32)
	op.contiguousRows("a", a)
	op.contiguousRows("b", b)
	op.writable("a", a)
	if op.arena != nil {
		op.require(a.ne[0] == b.ne[0], "ne0 must be equal: a has %d, b has %d", a.ne[0], b.ne[0])
		op.require(a.ne[2] == b.ne[2] && a.ne[3] == b.ne[3], "ne2 and ne3 of a and b must be equal")
		op.require(ids.ne[0] == b.ne[1], "ids has %d indices, b has %d rows", ids.ne[0], b.ne[1])
		op.require(b.ne[2]%ids.ne[1] == 0 && b.ne[3]%ids.ne[2] == 0 && ids.ne[3] == 1, "ne2 and ne3 of b must be multiples of ne1 and ne2 of ids")
	}
	return op.done(C.goggml_op_set_rows(op.arena, a.ptr(), b.ptr(), ids.ptr()))
}

// Pad returns a with zeros appended: after[i] of them in dimension i. a is
// F32. It has no backward. C: ggml_pad.
func (c *Context) Pad(a *Tensor, after [4]int) *Tensor {
	op := c.begin("pad", a)
	op.types("a", a, F32)
	for i, n := range after {
		op.require(n >= 0 && n < 1<<30, "the padding of dimension %d is %d", i, n)
	}
	return op.done(C.goggml_op_pad(op.arena, a.ptr(), C.int(after[0]), C.int(after[1]), C.int(after[2]), C.int(after[3])))
}
