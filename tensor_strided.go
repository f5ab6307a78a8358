package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"
)

// A Layout describes how the elements of a tensor lie in memory.
type Layout struct {
	Type   Type
	Shape  [MaxDims]int64 // [ne0, ne1, ne2, ne3], ne0 fastest; at least 1 each
	Stride [MaxDims]int64 // bytes between neighbours in each dimension, in dimension 0 between blocks
}

// Layout returns the tensor's type, shape and strides; without strides if its context is closed.
func (t *Tensor) Layout() Layout {
	t = made(t)
	l := Layout{Type: t.typ, Shape: t.ne}
	t.withRef(func() {
		for i, nb := range t.t.nb {
			l.Stride[i] = int64(nb)
		}
	})
	return l
}

// NumBytes returns the bytes from the first element to the last, as [Tensor.NumBytes] does. It
// fails for an invalid layout.
func (l Layout) NumBytes() (int64, error) {
	n, err := l.span()
	if err != nil {
		return 0, fmt.Errorf("ggml: %w", err)
	}
	return n, nil
}

var errLayoutSize = errors.New("it is too large")

// span is NumBytes with an error that is a part of a message.
func (l Layout) span() (int64, error) {
	if !l.Type.IsValid() {
		return 0, fmt.Errorf("there is no type %d", int32(l.Type))
	}
	block, size := l.Type.BlockSize(), l.Type.BlockBytes()
	for i := range MaxDims {
		switch ne, nb := l.Shape[i], l.Stride[i]; {
		case ne < 1:
			return 0, fmt.Errorf("ne%d is %d; it must be at least 1", i, ne)
		case nb < 0 || nb%size != 0:
			return 0, fmt.Errorf("stride %d is %d, not a multiple of the %d bytes of a block", i, nb, size)
		case i == 0 && ne%block != 0 && nb == size:
			return 0, fmt.Errorf("ne0 is %d; a row of %v is a multiple of %d elements", ne, l.Type, block)
		}
	}
	end, first := uint64(size), 0
	if block > 1 { // ggml counts the blocks of a row so
		over, bytes := bits.Mul64(uint64(l.Shape[0]), uint64(l.Stride[0]))
		if end, first = bytes/uint64(block), 1; over != 0 || end >= maxBytes {
			return 0, errLayoutSize
		}
	}
	for i := first; i < MaxDims; i++ {
		over, extent := bits.Mul64(uint64(l.Shape[i]-1), uint64(l.Stride[i]))
		if end += extent; over != 0 || extent >= maxBytes || end >= maxBytes {
			return 0, errLayoutSize
		}
	}
	return int64(end), nil
}

// packedBytes returns the bytes of the elements without gaps; false on overflow.
func (l Layout) packedBytes() (int64, bool) {
	n := uint64(l.Type.BlockBytes())
	for i, ne := range l.Shape {
		if i == 0 {
			ne = (ne + l.Type.BlockSize() - 1) / l.Type.BlockSize()
		}
		over, product := bits.Mul64(n, uint64(ne))
		if n = product; over != 0 || n >= maxBytes {
			return 0, false
		}
	}
	return int64(n), true
}

// spanOf requires a valid layout, and returns the bytes from its first element to its last.
func (op *opCall) spanOf(l Layout) (span int64) {
	if op.arena == nil {
		return 0
	}
	span, err := l.span()
	if err != nil {
		op.failed(nil, err.Error())
	}
	return span
}

// NewTensorOf makes a tensor with a layout, for example of a view or of another program's tensor.
// Its elements must not overlap; [Context.NewTensor] makes tensors without gaps.
func (c *Context) NewTensorOf(l Layout) *Tensor {
	op := c.begin("new_tensor")
	op.describe = []Operand{{Name: "result", Type: l.Type, Shape: l.Shape[:]}}
	span := op.spanOf(l)
	if op.arena != nil {
		packed, fits := l.packedBytes()
		op.require(fits && packed <= span, "its elements share memory")
	}
	one := C.int64_t(1)
	r := C.goggml_op_new_tensor(op.arena, C.GGML_TYPE_I8, 1, &one)
	if r.value != nil {
		l.set(r.value)
	}
	return op.done(r)
}

// AliasOf is [Context.Alias] with another shape and other strides, at an offset in bytes. The alias
// has the tensor's type and must end within the tensor.
func (c *Context) AliasOf(t *Tensor, l Layout, offset int64) *Tensor {
	op := c.begin("view_tensor", t)
	if span := op.spanOf(l); op.arena != nil {
		size := int64(C.ggml_nbytes(t.t))
		packed, fits := l.packedBytes()
		op.require(l.Type == t.typ, "the type is %v, not %v", t.typ, l.Type)
		op.require(offset >= 0 && offset%l.Type.BlockBytes() == 0, "the offset is %d; it must be a multiple of the block size %d", offset, l.Type.BlockBytes())
		op.require(fits && offset <= size && max(span, packed) <= size-offset, "%d bytes at offset %d reach beyond the tensor, which has %d", max(span, packed), offset, size)
	}
	r := C.goggml_op_view_tensor(op.arena, t.ptr())
	if p := r.value; p != nil {
		l.set(p)
		p.view_offs += C.size_t(offset)
		if p.data != nil {
			p.data = unsafe.Add(p.data, offset)
		}
		p.src[0] = p.view_src // without it, a graph would omit the aliased tensor
	}
	return op.done(r)
}

// set sets the layout of a C tensor.
func (l Layout) set(p *C.struct_ggml_tensor) {
	p._type = C.enum_ggml_type(l.Type)
	for i := range MaxDims {
		p.ne[i], p.nb[i] = C.int64_t(l.Shape[i]), C.size_t(l.Stride[i])
	}
}
