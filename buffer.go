package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/goggml/ggml/internal/rpcrelay"
)

// AllocSize is the room in bytes that the tensors take in such memory, with the
// padding between them; more than the sum of their sizes where a device
// arranges the data in its own way. A view takes none.
// C: ggml_backend_buft_get_alloc_size, ggml_backend_buft_get_alloc_size_n.
func (bt *BufferType) AllocSize(tensors ...*Tensor) (int64, error) {
	const op = "buft_get_alloc_size"
	if bt.isZero() {
		return 0, during(zeroError(), op)
	}
	list, release, err := retainTensors(op, tensors)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	defer release()
	r := C.goggml_buft_alloc_size(bt.b, &list[0], C.int(len(list)))
	if err := guardError(r.error); err != nil {
		return 0, tensors[0].errorf(op, nil, "%v", err)
	}
	return int64(r.value), nil
}

// retainTensors keeps tensors, and what they depend on, until release.
func retainTensors(op string, tensors []*Tensor) (list []*C.struct_ggml_tensor, release func(), err error) {
	var contexts []*Context
	for _, t := range tensors {
		if err := t.missing(op); err != nil {
			return nil, nil, err
		}
		list = append(list, t.t)
		for _, c := range t.ctx.withDependencies() {
			if !containsContext(contexts, c) {
				contexts = append(contexts, c)
			}
		}
	}
	if release, err = retainChecked(contexts); err != nil {
		return nil, nil, during(err, op)
	}
	return list, release, nil
}

// Device is the device of the memory; the CPU for ordinary memory.
// C: ggml_backend_buft_get_device.
func (bt *BufferType) Device() (*Device, error) {
	if bt.isZero() {
		return nil, zeroError()
	}
	if d := deviceOf(bt.b); d != nil {
		return &Device{d}, nil
	}
	return DeviceByType(CPU)
}

// Allocate gives the tensors, which have no memory yet, memory of this type, as
// [Context.Allocate] does for all of a context. C: ggml_backend_buft_alloc_buffer_n.
func (bt *BufferType) Allocate(tensors ...*Tensor) (*Buffers, error) {
	const op = "buft_alloc_buffer"
	if bt.isZero() {
		return nil, during(zeroError(), op)
	}
	_, release, err := retainTensors(op, tensors)
	if err != nil {
		return nil, err
	}
	defer release()
	return allocateTensors(tensors, bt)
}

// NewBuffer allocates a buffer in the memory that the backend computes in.
// C: ggml_backend_alloc_buffer.
func (b *Backend) NewBuffer(size int64) (*Buffer, error) { return b.BufferType().NewBuffer(size) }

// NewBufferFrom makes a buffer of memory of the program, in which the CPU
// computes in place. The memory begins at a multiple of 32 bytes, as slices of
// 32 KiB and more do; it stays where it is until the buffer is freed, and is
// not to be written while a computation reads it.
// C: ggml_backend_cpu_buffer_from_ptr.
func NewBufferFrom(memory []byte) (*Buffer, error) {
	const alignment = 32 // ggml asserts it
	start := unsafe.SliceData(memory)
	if len(memory) == 0 || uintptr(unsafe.Pointer(start))%alignment != 0 {
		return nil, fmt.Errorf("ggml: a buffer from %d bytes of memory: it must have some, and begin at a multiple of %d bytes", len(memory), alignment)
	}
	pinner := &runtime.Pinner{}
	pinner.Pin(start)
	r := C.goggml_cpu_buffer_from_ptr(unsafe.Pointer(start), C.size_t(len(memory)))
	if r.value == nil {
		pinner.Unpin()
		return nil, fmt.Errorf("ggml: a buffer from %d bytes of memory: %w", len(memory), guardError(r.error))
	}
	return newBuffer(C.ggml_backend_buffer_t(r.value), pinner.Unpin)
}

// withRef runs f while the buffer cannot be freed; not at all when it is closed.
func (b *Buffer) withRef(f func()) {
	if b == nil || b.h.acquire() != nil {
		return
	}
	defer b.h.release()
	f()
}

// Name names the memory, like [BufferType.Name]; "" when closed.
// C: ggml_backend_buffer_name.
func (b *Buffer) Name() string {
	var name string
	b.withRef(func() { name = rpcrelay.DisplayName(C.GoString(C.ggml_backend_buffer_name(b.b))) })
	return name
}

// Alignment is the alignment of tensors in bytes, 0 when closed.
// C: ggml_backend_buffer_get_alignment.
func (b *Buffer) Alignment() int64 {
	var n int64
	b.withRef(func() { n = int64(C.ggml_backend_buffer_get_alignment(b.b)) })
	return n
}

// MaxSize is the largest buffer of this kind in bytes, 0 when closed.
// C: ggml_backend_buffer_get_max_size.
func (b *Buffer) MaxSize() int64 {
	var n int64
	b.withRef(func() { n = int64(min(uint64(C.ggml_backend_buffer_get_max_size(b.b)), maxBytes)) })
	return n
}

// AllocSize is the room in bytes that the tensor would take in the buffer.
// C: ggml_backend_buffer_get_alloc_size.
func (b *Buffer) AllocSize(t *Tensor) (int64, error) {
	bt := b.Type()
	if bt == nil {
		return 0, b.h.acquire()
	}
	return bt.AllocSize(t)
}

// IsHost reports whether the program could read the memory directly.
// C: ggml_backend_buffer_is_host.
func (b *Buffer) IsHost() bool {
	var yes bool
	b.withRef(func() { yes = bool(C.ggml_backend_buffer_is_host(b.b)) })
	return yes
}

// Usage reports what the buffer is for. C: ggml_backend_buffer_get_usage.
func (b *Buffer) Usage() Usage {
	usage := UsageAny
	b.withRef(func() { usage = Usage(C.ggml_backend_buffer_get_usage(b.b)) })
	return usage
}

// Reset makes a buffer as good as new in which no tensor lies any more: where a
// backend keeps notes on the tensors of a buffer, it drops them. Close the
// contexts of its tensors before. C: ggml_backend_buffer_reset.
func (b *Buffer) Reset() error {
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	b.attached.mu.Lock()
	defer b.attached.mu.Unlock()
	for _, c := range b.attached.list {
		if n := c.tensorsIn(b.b); n > 0 {
			return fmt.Errorf("ggml: reset of a buffer: %d tensors of a context lie in it; close the context first", n)
		}
	}
	return guardError(C.goggml_buffer_reset(b.b))
}

// tensorsIn counts the tensors of the context that lie in the buffer, at least
// one when the context is closed but in use.
func (c *contextCore) tensorsIn(b C.ggml_backend_buffer_t) (n int) {
	if c.h.acquire() != nil {
		if c.h.freed() {
			return 0
		}
		return 1
	}
	defer c.h.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	var chunk C.int
	for t := C.goggml_arena_first(c.arena, &chunk); t != nil; t = C.goggml_arena_next(c.arena, &chunk, t) {
		if bool(C.goggml_lies_in(t, b)) {
			n++
		}
	}
	return n
}

// PlaceAt puts a tensor that has no memory at an offset in bytes from the start
// of the buffer, a multiple of its Alignment. Tensors may overlap: what one of
// them holds is what was written last. See [TensorAllocator] for tensors one
// after the other. C: ggml_backend_tensor_alloc, ggml_backend_buffer_get_base.
func (b *Buffer) PlaceAt(t *Tensor, offset int64) error {
	const op = "tensor_alloc"
	if b == nil {
		return t.errorf(op, nil, "the buffer is nil")
	}
	var refused error
	err := b.place(t, func(p *C.struct_ggml_tensor) C.goggml_int {
		need, err := b.heldType().room(t)
		size, alignment := b.heldSize(), b.heldType().Alignment()
		switch {
		case err != nil:
			refused = err
		case offset < 0 || offset%alignment != 0:
			refused = t.errorf(op, nil, "the offset %d is no multiple of %d", offset, alignment)
		case offset > size || need > size-offset:
			refused = t.errorf(op, ErrOutOfMemory, "%d bytes at offset %d reach beyond the buffer, which has %d", need, offset, size)
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
