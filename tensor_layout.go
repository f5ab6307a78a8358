package ggml

// #include "csrc/goggml.h"
import "C"

// predicate returns the result of f for the C tensor; false if the context is closed or the op
// failed.
func (t *Tensor) predicate(f func(t *C.struct_ggml_tensor) C.bool) bool {
	var yes bool
	t.withRef(func() { yes = bool(f(t.t)) })
	return yes
}

// IsTransposed reports whether stride 0 exceeds stride 1. C: ggml_is_transposed.
func (t *Tensor) IsTransposed() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool { return C.ggml_is_transposed(t) })
}

// IsPermuted reports whether a stride exceeds the stride of the next dimension. C:
// ggml_is_permuted.
func (t *Tensor) IsPermuted() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool { return C.ggml_is_permuted(t) })
}

// IsEmpty reports whether there are no elements, which only tensors made by ggml itself can have:
// all others have sizes of at least 1. C: ggml_is_empty.
func (t *Tensor) IsEmpty() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool { return C.ggml_is_empty(t) })
}

// IsScalar reports whether there is one element. C: ggml_is_scalar.
func (t *Tensor) IsScalar() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool { return C.ggml_is_scalar(t) })
}

// IsVector reports whether all sizes except ne0 are 1. C: ggml_is_vector.
func (t *Tensor) IsVector() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool { return C.ggml_is_vector(t) })
}

// IsMatrix reports whether ne2 and ne3 are 1. C: ggml_is_matrix.
func (t *Tensor) IsMatrix() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool { return C.ggml_is_matrix(t) })
}

// Is3D reports whether ne3 is 1. C: ggml_is_3d.
func (t *Tensor) Is3D() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool { return C.ggml_is_3d(t) })
}

// IsContiguousFrom reports whether the elements of a row are adjacent, and the dimensions after
// dim, which is 0, 1 or 2, have no gaps: from 1 on, the rows may have a larger stride. It is false
// for other dim. Plumbing: programs rarely need it. C: ggml_is_contiguous_0, ggml_is_contiguous_1,
// ggml_is_contiguous_2.
func (t *Tensor) IsContiguousFrom(dim int) bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool {
		switch dim {
		case 0:
			return C.ggml_is_contiguous_0(t)
		case 1:
			return C.ggml_is_contiguous_1(t)
		case 2:
			return C.ggml_is_contiguous_2(t)
		}
		return false
	})
}

// IsContiguousBelow reports whether the dimensions before dim, which is 1, 2 or 3, have no gaps:
// for 1 the elements of a row are adjacent, for 2 also the rows of a matrix. It is false for other
// dim. Plumbing: programs rarely need it. C: ggml_is_contiguous_to_1, ggml_is_contiguous_to_2,
// ggml_is_contiguous_to_3.
func (t *Tensor) IsContiguousBelow(dim int) bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool {
		switch dim {
		case 1:
			return C.ggml_is_contiguous_to_1(t)
		case 2:
			return C.ggml_is_contiguous_to_2(t)
		case 3:
			return C.ggml_is_contiguous_to_3(t)
		}
		return false
	})
}

// IsContiguouslyAllocated reports whether the elements fill a range of memory without gaps, in any
// order. Plumbing: programs rarely need it. C: ggml_is_contiguously_allocated.
func (t *Tensor) IsContiguouslyAllocated() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool { return C.ggml_is_contiguously_allocated(t) })
}

// IsContiguousChannels reports whether the tensor is stored as [ne2, ne0, ne1, ne3]
// and permuted, so that the channels (ne2) of a pixel are adjacent. Plumbing:
// programs rarely need it. C: ggml_is_contiguous_channels.
func (t *Tensor) IsContiguousChannels() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool { return C.ggml_is_contiguous_channels(t) })
}

// IsContiguousRows reports whether the elements of each row are adjacent, or a row
// is one block. C: ggml_is_contiguous_rows.
func (t *Tensor) IsContiguousRows() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool { return C.ggml_is_contiguous_rows(t) })
}

// compared returns the result of f for two C tensors; false if one is nil, comes from an op that
// failed, or belongs to a closed context.
func compared(a, b *Tensor, f func(a, b *C.struct_ggml_tensor) C.bool) bool {
	yes := false
	a.withRef(func() {
		b.withRef(func() { yes = bool(f(a.t, b.t)) })
	})
	return yes
}

// SameShape reports whether all sizes are equal. C: ggml_are_same_shape.
func SameShape(a, b *Tensor) bool {
	return compared(a, b, func(a, b *C.struct_ggml_tensor) C.bool { return C.ggml_are_same_shape(a, b) })
}

// SameStride reports whether all strides are equal. C: ggml_are_same_stride.
func SameStride(a, b *Tensor) bool {
	return compared(a, b, func(a, b *C.struct_ggml_tensor) C.bool { return C.ggml_are_same_stride(a, b) })
}

// CanRepeat reports whether each size of b is a multiple of a's, so that
// [Context.Repeat] and the arithmetic ops can repeat a to the shape of b.
// C: ggml_can_repeat.
func CanRepeat(a, b *Tensor) bool {
	return compared(a, b, func(a, b *C.struct_ggml_tensor) C.bool { return C.ggml_can_repeat(a, b) })
}

// Coordinates returns the indices [i0, i1, i2, i3] of element i in the order of the elements.
// Plumbing: programs rarely need it. C: ggml_unravel_index.
func (t *Tensor) Coordinates(i int64) ([MaxDims]int64, error) {
	var at [MaxDims]int64
	if err := t.missing(); err != nil {
		return at, err
	}
	if i < 0 || i >= t.NumElements() {
		return at, t.errorf(nil, "there is no element %d: there are %d", i, t.NumElements())
	}
	for d, n := range t.ne {
		at[d], i = i%n, i/n
	}
	return at, nil
}
