package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goggml/ggml/internal/rpcrelay"
)

// Usage is a hint to schedulers about the purpose of a buffer. C: enum ggml_backend_buffer_usage.
type Usage int

// The usages of a buffer.
const (
	UsageAny     Usage = C.GGML_BACKEND_BUFFER_USAGE_ANY
	UsageWeights Usage = C.GGML_BACKEND_BUFFER_USAGE_WEIGHTS // ops run where their weights are
	UsageCompute Usage = C.GGML_BACKEND_BUFFER_USAGE_COMPUTE
)

// A Buffer is device memory that holds the data of tensors. Closing it makes its tensors
// unallocated. It is safe for concurrent use. C: ggml_backend_buffer_t.
type Buffer struct {
	h        *handle
	b        C.ggml_backend_buffer_t
	attached *attachedContexts
	freed    *atomic.Bool

	tried sync.Once // sets extra: whether the device keeps data of its own with each tensor
	extra bool
}

// attachedContexts lists the contexts that have tensors in the buffer.
type attachedContexts struct {
	mu   sync.Mutex
	list []*contextCore
}

func (a *attachedContexts) add(c *contextCore) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.list, c) {
		a.list = append(slices.DeleteFunc(a.list, func(c *contextCore) bool { return c.h.closed() }), c)
	}
}

// newBuffer takes ownership of b; after runs once b is freed and may be nil.
func newBuffer(b C.ggml_backend_buffer_t, after func(), parents ...*handle) (*Buffer, error) {
	attached, freed := &attachedContexts{}, &atomic.Bool{}
	h, err := newHandle("buffer", func() {
		for _, c := range attached.list {
			c.detach(b)
		}
		freed.Store(true)
		released(C.goggml_buffer_free(b))
		if after != nil {
			after()
		}
	}, parents...)
	if err != nil {
		return nil, err
	}
	memory.track(h, func() []memoryUse { return []memoryUse{bufferUse(b)} })
	buf := &Buffer{h: h, b: b, attached: attached, freed: freed}
	closeOnCollect(buf, h)
	return buf, nil
}

// NewBuffer allocates a buffer in the memory that the backend computes in.
// C: ggml_backend_alloc_buffer.
func (b *Backend) NewBuffer(size int64) (*Buffer, error) {
	b = made(b)
	return b.BufferType().NewBuffer(size)
}

// NewBufferFrom makes a buffer of the program's memory, in which the CPU computes in place. The
// memory must begin at a multiple of 32 bytes, as slices of at least 32 KiB do. It must stay in
// place until the buffer is freed, and must not be written while a computation reads it. C:
// ggml_backend_cpu_buffer_from_ptr.
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

// Close frees the memory when the last computation on it has ended, and makes its tensors
// unallocated. It never fails. C: ggml_backend_buffer_free.
func (b *Buffer) Close() error {
	if b != nil {
		b.h.close()
	}
	return nil
}

// withRef runs f while the buffer is retained. If the buffer is closed, f does not run.
func (b *Buffer) withRef(f func()) {
	if b == nil || b.h.acquire() != nil {
		return
	}
	defer b.h.release()
	f()
}

// Name returns the name of the memory, like [BufferType.Name]; "" if closed. C:
// ggml_backend_buffer_name.
func (b *Buffer) Name() string {
	var name string
	b.withRef(func() { name = rpcrelay.DisplayName(C.GoString(C.ggml_backend_buffer_name(b.b))) })
	return name
}

// Type returns the buffer type, or nil if closed. C: ggml_backend_buffer_get_type.
func (b *Buffer) Type() *BufferType {
	b = made(b)
	if b.h.acquire() != nil {
		return nil
	}
	defer b.h.release()
	return &BufferType{C.ggml_backend_buffer_get_type(b.b)}
}

// Size returns the size in bytes, 0 if closed. C: ggml_backend_buffer_get_size.
func (b *Buffer) Size() int64 {
	b = made(b)
	if b.h.acquire() != nil {
		return 0
	}
	defer b.h.release()
	return int64(C.ggml_backend_buffer_get_size(b.b))
}

// Alignment returns the alignment of tensors in bytes, 0 if closed. C:
// ggml_backend_buffer_get_alignment.
func (b *Buffer) Alignment() int64 {
	var n int64
	b.withRef(func() { n = int64(C.ggml_backend_buffer_get_alignment(b.b)) })
	return n
}

// MaxSize returns the maximum size in bytes of a buffer of this kind, 0 if closed. C:
// ggml_backend_buffer_get_max_size.
func (b *Buffer) MaxSize() int64 {
	var n int64
	b.withRef(func() { n = int64(min(uint64(C.ggml_backend_buffer_get_max_size(b.b)), maxBytes)) })
	return n
}

// AllocSize returns the bytes that the tensor would take in the buffer. C:
// ggml_backend_buffer_get_alloc_size.
func (b *Buffer) AllocSize(t *Tensor) (int64, error) {
	b = made(b)
	bt := b.Type()
	if bt == nil {
		return 0, b.h.acquire()
	}
	return bt.AllocSize(t)
}

// IsHost reports whether the program can read the memory directly. C: ggml_backend_buffer_is_host.
func (b *Buffer) IsHost() bool {
	var yes bool
	b.withRef(func() { yes = bool(C.ggml_backend_buffer_is_host(b.b)) })
	return yes
}

// Usage returns the purpose of the buffer. C: ggml_backend_buffer_get_usage.
func (b *Buffer) Usage() Usage {
	usage := UsageAny
	b.withRef(func() { usage = Usage(C.ggml_backend_buffer_get_usage(b.b)) })
	return usage
}

// SetUsage tells schedulers the purpose of the buffer. It does nothing if the buffer is closed. C:
// ggml_backend_buffer_set_usage.
func (b *Buffer) SetUsage(u Usage) {
	b = made(b)
	if b.h.acquire() != nil {
		return
	}
	defer b.h.release()
	C.ggml_backend_buffer_set_usage(b.b, C.enum_ggml_backend_buffer_usage(u))
}

// SetSparse says that parts of the buffer may stay unused. Linux then provides the memory of the process in small pages as it
// is written; otherwise in pages of 2 MiB, if it has them. Call it before writing. It does nothing to memory of other devices.
func (b *Buffer) SetSparse() {
	b.withRef(func() { C.goggml_sparse_buffer(b.b) })
}

// Clear sets every byte. C: ggml_backend_buffer_clear.
func (b *Buffer) Clear(value byte) error {
	b = made(b)
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	if err := guardError(C.goggml_buffer_clear(b.b, C.uint8_t(value))); err != nil {
		return err
	}
	return wrapDeviceErr(deviceOf(C.ggml_backend_buffer_get_type(b.b)))
}

// Reset makes an emptied buffer as good as new: the backend drops its records of the tensors in it.
// Close the contexts of its tensors first. C: ggml_backend_buffer_reset.
func (b *Buffer) Reset() error {
	b = made(b)
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

// tensorsIn counts the context's tensors in the buffer. It returns at least one for a context that
// is closed but in use.
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

// heldType and heldSize are Type and Size of a retained buffer, which may be closed meanwhile.
func (b *Buffer) heldType() *BufferType {
	return &BufferType{C.ggml_backend_buffer_get_type(b.b)}
}

func (b *Buffer) heldSize() int64 { return int64(C.ggml_backend_buffer_get_size(b.b)) }

// Buffers are the buffers made by [Context.Allocate]. They are safe for concurrent use.
type Buffers struct{ list []*Buffer }

// Close frees the memory of all buffers, see [Buffer.Close].
func (b *Buffers) Close() error {
	if b == nil {
		return nil
	}
	for _, buf := range b.list {
		buf.Close()
	}
	return nil
}

// Size is the sum of the sizes in bytes.
func (b *Buffers) Size() int64 {
	b = made(b)
	var n int64
	for _, buf := range b.list {
		n += buf.Size()
	}
	return n
}

// Clear sets every byte.
func (b *Buffers) Clear(value byte) error {
	b = made(b)
	for _, buf := range b.list {
		if err := buf.Clear(value); err != nil {
			return err
		}
	}
	return nil
}

// SetSparse says that parts of the memory may stay unused, see [Buffer.SetSparse].
func (b *Buffers) SetSparse() {
	b = made(b)
	for _, buf := range b.list {
		buf.SetSparse()
	}
}

// SetUsage tells schedulers the purpose of the memory.
func (b *Buffers) SetUsage(u Usage) {
	b = made(b)
	for _, buf := range b.list {
		buf.SetUsage(u)
	}
}
