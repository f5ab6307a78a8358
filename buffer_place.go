package ggml

// #include "csrc/goggml.h"
import "C"

import "unsafe"

// placer gives tensors their memory inside a buffer.
type placer func(t *C.struct_ggml_tensor) C.goggml_int

// place allocates one tensor with f.
func (b *Buffer) place(t *Tensor, f placer) error {
	if err := t.missing(); err != nil {
		return err
	}
	release, err := retainChecked(t.ctx.withDependencies())
	if err != nil {
		return during(err, t.operand())
	}
	defer release()
	if err := b.h.acquire(); err != nil {
		return during(err, t.operand())
	}
	defer b.h.release()
	t.ctx.attach(b)
	t.ctx.mu.Lock()
	defer t.ctx.mu.Unlock()
	if t.t.view_src != nil {
		return t.errorf(nil, "the tensor is a view; it gets the memory of what it is a view of")
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
}

// PlaceAt puts a tensor that has no memory at an offset in bytes from the start of the buffer, a
// multiple of its Alignment. Tensors may overlap: the last write to shared memory wins. See
// [TensorAllocator] for tensors one after the other. C: ggml_backend_tensor_alloc,
// ggml_backend_buffer_get_base.
func (b *Buffer) PlaceAt(t *Tensor, offset int64) error {
	if b == nil {
		return t.errorf(errNil, "the buffer is nil")
	}
	var refused error
	err := b.place(t, func(p *C.struct_ggml_tensor) C.goggml_int {
		need, err := b.heldType().room(t)
		size, alignment := b.heldSize(), b.heldType().Alignment()
		switch {
		case err != nil:
			refused = err
		case offset < 0 || offset%alignment != 0:
			refused = t.errorf(nil, "the offset %d is no multiple of %d", offset, alignment)
		case offset > size || need > size-offset:
			refused = t.errorf(ErrOutOfMemory, "%d bytes at offset %d reach beyond the buffer, which has %d", need, offset, size)
		default:
			return C.goggml_tensor_alloc(b.b, p, unsafe.Add(C.ggml_backend_buffer_get_base(b.b), offset))
		}
		return C.goggml_int{value: C.GGML_STATUS_ALLOC_FAILED}
	})
	if refused != nil {
		return refused
	}
	return err
}
