package ggml

// #include "csrc/goggml.h"
import "C"

import "unsafe"

// CopyTensor copies the data of src to dst, which must have the same shape, type and layout, and
// may lie on another device. Neither may be a view with gaps. C: ggml_backend_tensor_copy.
func CopyTensor(dst, src *Tensor) error {
	return copyTensor(dst, src, func() *C.char { return C.goggml_tensor_copy(src.t, dst.t) })
}

// copyTensor runs f, which copies, with both tensors retained.
func copyTensor(dst, src *Tensor, f func() *C.char) error {
	release, err := retainCopy(dst, src)
	if err != nil {
		return err
	}
	defer release()
	return copyRetained(dst, src, f)
}

func retainCopy(dst, src *Tensor) (release func(), err error) {
	if src == nil || dst == nil {
		return nil, callError(errNil, "a tensor is nil", src.operand(), dst.operand())
	}
	for _, t := range []*Tensor{src, dst} {
		if t.t == nil {
			return nil, t.failure()
		}
	}
	release, err = retainChecked(append(src.ctx.withDependencies(), dst.ctx.withDependencies()...))
	return release, during(err, src.operand(), dst.operand())
}

func copyRetained(dst, src *Tensor, f func() *C.char) error {
	if err := checkCopy(dst, src); err != nil {
		return err
	}
	if err := guardError(f()); err != nil {
		return callError(nil, err.Error(), src.operand(), dst.operand())
	}
	if err := src.present(); err != nil {
		return err
	}
	return dst.present()
}

// checkCopy returns why a retained tensor cannot be copied to another, or nil.
func checkCopy(dst, src *Tensor) error {
	fail := func(reason string) error {
		return callError(nil, reason, src.operand(), dst.operand())
	}
	if src.typ != dst.typ || src.ne != dst.ne || !bool(C.ggml_are_same_stride(src.t, dst.t)) {
		return fail("type, shape and layout must be equal")
	}
	if err := src.accessible(reads); err != nil {
		return err
	}
	if err := dst.accessible(writes); err != nil {
		return err
	}
	if !bool(C.ggml_is_contiguously_allocated(src.t)) {
		return fail("the copy would include the bytes between the elements of these views; read and write them, or use the op Copy")
	}
	if src.isRepacked() || dst.isRepacked() {
		return fail("repacked weights cannot be copied; write the tensor as a whole")
	}
	return nil
}

// checkReachable requires that a retained tensor lies in memory that the backend can copy from and
// to in the order of its work.
func (b *Backend) checkReachable(t *Tensor) error {
	root := t.root()
	if root.buffer == nil {
		return nil // access reports it
	}
	bt := BufferType{C.ggml_backend_buffer_get_type(root.buffer)}
	if !b.device.SupportsBufferType(&bt) {
		return t.errorf(nil, "the tensor is in memory of kind %s, which backend %s cannot access; use a backend that can, or CopyTensor", bt.Name(), b.Name())
	}
	return nil
}

// WriteAsync is [Tensor.WriteAt] in the order of the backend's work: after work already begun,
// before later work. If the device supports it, the call returns at once: do not change p, nor read
// the tensor otherwise, before [Backend.Synchronize]. The tensor must lie in memory of the backend.
// C: ggml_backend_tensor_set_async.
func (b *Backend) WriteAsync(t *Tensor, p []byte, offset int64) error {
	return b.copyAsync(t, p, int64(len(p)), offset, writes, func() *C.char {
		return C.goggml_tensor_set_async(b.b, t.t, unsafe.Pointer(&p[0]), C.size_t(offset), C.size_t(len(p)))
	})
}

// ReadAsync is [Tensor.ReadAt] in the order of the backend's work; p contains the data after
// [Backend.Synchronize]. See WriteAsync. C: ggml_backend_tensor_get_async.
func (b *Backend) ReadAsync(t *Tensor, p []byte, offset int64) error {
	return b.copyAsync(t, p, int64(len(p)), offset, reads, func() *C.char {
		return C.goggml_tensor_get_async(b.b, t.t, unsafe.Pointer(&p[0]), C.size_t(offset), C.size_t(len(p)))
	})
}

// copyAsync calls f, which begins a copy between memory and n bytes of the tensor.
func (b *Backend) copyAsync(t *Tensor, memory []byte, n, offset int64, use dataUse, f func() *C.char) error {
	if err := t.missing(); err != nil {
		return err
	}
	if b == nil {
		return t.errorf(errNil, "the backend is nil")
	}
	if err := b.h.acquire(); err != nil {
		return during(err, t.operand())
	}
	defer b.h.release()
	// Before the lock: retaining may wait for a computation that waits for it.
	contexts := t.ctx.withDependencies()
	release, err := retainChecked(contexts)
	if err != nil {
		return during(err, t.operand())
	}
	if err := lock(&b.mu); err != nil {
		release()
		return during(err, t.operand())
	}
	if err = b.checkReachable(t); err == nil {
		err = t.accessRetained(int(n), offset, use, f)
	}
	pending := err == nil && b.async
	if pending {
		b.addPending(unsafe.SliceData(memory), contexts, release)
	}
	b.mu.Unlock()
	if !pending {
		release()
	}
	return err
}

// CopyTensorAsync is [CopyTensor] in the order of the work of two backends, from with src and to
// with dst: the copy begins after work already begun on from, and before later work on to. See
// [Backend.WriteAsync]. C: ggml_backend_tensor_copy_async.
func CopyTensorAsync(from, to *Backend, dst, src *Tensor) error {
	if from == nil || to == nil || dst == nil || src == nil {
		return callError(errNil, "a backend or a tensor is nil", src.operand(), dst.operand())
	}
	release, err := retainCopy(dst, src)
	if err != nil {
		return err
	}
	unlock, err := lockBackends([]*Backend{from, to})
	if err != nil {
		release()
		return during(err, src.operand(), dst.operand())
	}
	if err = from.checkReachable(src); err == nil {
		err = to.checkReachable(dst)
	}
	if err == nil {
		err = copyRetained(dst, src, func() *C.char { return C.goggml_tensor_copy_async(from.b, to.b, src.t, dst.t) })
	}
	pending := err == nil && (from.async || to.async)
	if pending { // either may do the copy
		contexts, release := append(src.ctx.withDependencies(), dst.ctx.withDependencies()...), afterN(2, release)
		from.addPending(nil, contexts, release)
		to.addPending(nil, contexts, release)
	}
	unlock()
	if !pending {
		release()
	}
	return err
}
