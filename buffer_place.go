package ggml

// #include "csrc/goggml.h"
import "C"

import "unsafe"

// A placer allocates a tensor inside a buffer.
type placer func(t *C.struct_ggml_tensor) C.goggml_int

// hold runs f with the buffer and the tensor retained and the tensor's context locked.
func (b *Buffer) hold(t *Tensor, f func() error) error {
	release, err := t.retain()
	if err != nil {
		return err
	}
	defer release()
	if err := b.h.acquire(); err != nil {
		return during(err, t.operand())
	}
	defer b.h.release()
	t.ctx.attach(b)
	t.ctx.mu.Lock()
	defer t.ctx.mu.Unlock()
	return f()
}

// place allocates one tensor with f.
func (b *Buffer) place(t *Tensor, f placer) error {
	return b.hold(t, func() error {
		if t.t.view_src != nil {
			return t.errorf(nil, "the tensor is a view, which shares the memory of its source; place the source")
		}
		if t.t.data != nil {
			return t.errorf(nil, "the tensor has memory already")
		}
		if bt := b.Type(); bt != nil && bt.repacks() && !bt.supportsMulMat(t) {
			return t.errorf(nil, "%s holds repacked weights, but none of this type and shape", bt.Name())
		}
		r := f(t.t)
		if err := guardError(r.error); err != nil {
			return t.errorf(nil, "%v", err)
		}
		if r.value != C.GGML_STATUS_SUCCESS {
			return t.errorf(ErrOutOfMemory, "the buffer refuses the tensor")
		}
		return t.present()
	})
}

// checkRoom requires that a retained tensor fits into the buffer at an offset.
func (b *Buffer) checkRoom(t *Tensor, offset int64) error {
	need, err := b.heldType().room(t)
	size, alignment := b.heldSize(), b.heldType().Alignment()
	switch {
	case err != nil:
		return err
	case offset < 0 || offset%alignment != 0:
		return t.errorf(nil, "the offset %d is not a multiple of %d", offset, alignment)
	case offset > size || need > size-offset:
		return t.errorf(ErrOutOfMemory, "%d bytes at offset %d reach beyond the buffer, which has %d", need, offset, size)
	}
	return nil
}

// at returns the address of an offset of the retained buffer.
func (b *Buffer) at(offset int64) unsafe.Pointer {
	return unsafe.Add(C.ggml_backend_buffer_get_base(b.b), offset)
}

// PlaceAt places an unallocated tensor at an offset in bytes from the start of the buffer, a
// multiple of its Alignment. Tensors may overlap: the last write to shared memory wins.
// [TensorAllocator] places tensors one after another. C: ggml_backend_tensor_alloc,
// ggml_backend_buffer_get_base.
func (b *Buffer) PlaceAt(t *Tensor, offset int64) error {
	if b == nil {
		return t.errorf(errNil, "the buffer is nil")
	}
	var refused error
	err := b.place(t, func(p *C.struct_ggml_tensor) C.goggml_int {
		if refused = b.checkRoom(t, offset); refused != nil {
			return C.goggml_int{value: C.GGML_STATUS_ALLOC_FAILED}
		}
		return C.goggml_tensor_alloc(b.b, p, b.at(offset))
	})
	if refused != nil {
		return refused
	}
	return err
}

// BindAt is [Buffer.PlaceAt] for memory in which another tensor was placed before: the device
// prepares nothing, and the data at the offset stays as it is. A view may be bound too, at its
// place inside its source tensor; some devices find a view's data by its address. It fails on
// devices that keep data of their own with each tensor.
func (b *Buffer) BindAt(t *Tensor, offset int64) error {
	if b == nil {
		return t.errorf(errNil, "the buffer is nil")
	}
	return b.hold(t, func() error {
		root := t.t.view_src
		switch {
		case b.heldType().repacks():
			return t.errorf(nil, "%s repacks the weights that are placed in it; place the tensor with PlaceAt", b.heldType().Name())
		case b.keepsExtra():
			return t.errorf(nil, "%s keeps extra data with each tensor; place it with PlaceAt", b.heldType().Name())
		case root == nil && t.t.data != nil:
			return t.errorf(nil, "the tensor has memory already")
		case root == nil:
			if err := b.checkRoom(t, offset); err != nil {
				return err
			}
		case root.data == nil || root.buffer != b.b || offset < 0 || offset > b.heldSize() || unsafe.Add(root.data, t.t.view_offs) != b.at(offset):
			return t.errorf(nil, "a view must lie at its place in its source")
		case int64(t.t.view_offs)%t.typ.BlockBytes() != 0 || int64(t.t.view_offs)+max(int64(C.ggml_nbytes(t.t)), t.packedSize()) > int64(C.ggml_nbytes(root)):
			return t.errorf(nil, "the view extends beyond its source")
		}
		C.goggml_memory_changed()
		t.t.buffer, t.t.data = b.b, b.at(offset)
		return t.present()
	})
}

// keepsExtra reports whether the device keeps a record for each tensor of the retained buffer.
func (b *Buffer) keepsExtra() bool {
	if bool(C.ggml_backend_buffer_is_host(b.b)) || b.heldSize() == 0 {
		return false
	}
	b.tried.Do(func() {
		var trial C.struct_ggml_tensor
		bytesLayout(1).set(&trial)
		err := guardError(C.goggml_tensor_alloc(b.b, &trial, b.at(0)).error)
		b.extra = err != nil || trial.extra != nil || metaOf(deviceOf(b.heldType().b)) != nil
	})
	return b.extra
}
