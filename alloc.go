package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goggml/ggml/internal/rpcrelay"
)

// A BufferType is a kind of memory: of which device, and in which layout. It
// is valid for the life of the process, and safe for concurrent use.
// C: ggml_backend_buffer_type_t.
type BufferType struct{ b C.ggml_backend_buffer_type_t }

// isZero reports whether it is no buffer type: nil, or a zero value.
func (bt *BufferType) isZero() bool { return bt == nil || bt.b == nil }

// CPUBufferType is ordinary memory. C: ggml_backend_cpu_buffer_type.
func CPUBufferType() *BufferType { return &BufferType{C.ggml_backend_cpu_buffer_type()} }

// Name names the buffer type. C: ggml_backend_buft_name.
func (bt *BufferType) Name() string {
	if bt.isZero() {
		return ""
	}
	return rpcrelay.DisplayName(C.GoString(C.ggml_backend_buft_name(bt.b)))
}

// Alignment is the alignment of tensors in bytes.
// C: ggml_backend_buft_get_alignment.
func (bt *BufferType) Alignment() int64 {
	if bt.isZero() {
		return 0
	}
	return int64(C.ggml_backend_buft_get_alignment(bt.b))
}

// MaxSize is the largest buffer in bytes. C: ggml_backend_buft_get_max_size.
func (bt *BufferType) MaxSize() int64 {
	if bt.isZero() {
		return 0
	}
	n := uint64(C.ggml_backend_buft_get_max_size(bt.b))
	return int64(min(n, maxBytes))
}

// IsHost reports whether the program can read the memory directly.
// C: ggml_backend_buft_is_host.
func (bt *BufferType) IsHost() bool { return !bt.isZero() && bool(C.ggml_backend_buft_is_host(bt.b)) }

// NewBuffer allocates a buffer of that many bytes.
// C: ggml_backend_buft_alloc_buffer.
func (bt *BufferType) NewBuffer(size int64) (*Buffer, error) {
	if bt.isZero() {
		return nil, zeroError()
	}
	if size < 0 || size > bt.MaxSize() {
		return nil, fmt.Errorf("ggml: a buffer of %d bytes: %s holds 0 to %d", size, bt.Name(), bt.MaxSize())
	}
	r := C.goggml_buft_alloc(bt.b, C.size_t(size))
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: a buffer of %d bytes in %s: %w", size, bt.Name(), err)
	}
	if err := wrapDeviceErr(deviceOf(bt.b)); err != nil {
		if r.value != nil {
			C.ggml_backend_buffer_free(C.ggml_backend_buffer_t(r.value))
		}
		return nil, err
	}
	if r.value == nil {
		return nil, fmt.Errorf("ggml: a buffer of %d bytes in %s: %w; close something, or use a smaller model or batch", size, bt.Name(), ErrOutOfMemory)
	}
	return newBuffer(C.ggml_backend_buffer_t(r.value), nil)
}

// room is what a tensor takes, which the caller retains.
func (bt *BufferType) room(t *Tensor) (int64, error) {
	r := C.goggml_buft_alloc_size(bt.b, &t.t, 1)
	if err := guardError(r.error); err != nil {
		return 0, t.errorf("buft_get_alloc_size", nil, "%v", err)
	}
	return int64(r.value), nil
}

// paddedRoom is the room of a tensor that is followed by another.
func (bt *BufferType) paddedRoom(t *Tensor) (int64, error) {
	n, err := bt.room(t)
	a := bt.Alignment()
	return (n + a - 1) / a * a, err
}

// Usage tells the scheduler what a buffer is for.
// C: enum ggml_backend_buffer_usage.
type Usage int

// The usages of a buffer.
const (
	UsageAny     Usage = C.GGML_BACKEND_BUFFER_USAGE_ANY
	UsageWeights Usage = C.GGML_BACKEND_BUFFER_USAGE_WEIGHTS // ops run where their weights are
	UsageCompute Usage = C.GGML_BACKEND_BUFFER_USAGE_COMPUTE
)

// A Buffer is memory of a device that holds the data of tensors. When it is
// closed the tensors in it become unallocated. It is safe for concurrent use.
// C: ggml_backend_buffer_t.
type Buffer struct {
	h        *handle
	b        C.ggml_backend_buffer_t
	attached *attachedContexts
	freed    *atomic.Bool
}

// attachedContexts lists the contexts that have tensors in a buffer.
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

// newBuffer takes over b; after (may be nil) runs once b is freed.
func newBuffer(b C.ggml_backend_buffer_t, after func(), parents ...*handle) (*Buffer, error) {
	attached, freed := &attachedContexts{}, &atomic.Bool{}
	h, err := newHandle("buffer", func() {
		for _, c := range attached.list {
			c.detach(b)
		}
		freed.Store(true)
		C.ggml_backend_buffer_free(b)
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

// Close frees the memory once no computation uses it any more, and makes the
// tensors in it unallocated. It never fails. C: ggml_backend_buffer_free.
func (b *Buffer) Close() error {
	if b != nil {
		b.h.close()
	}
	return nil
}

// Size is the size in bytes, 0 when closed. C: ggml_backend_buffer_get_size.
func (b *Buffer) Size() int64 {
	if b.h.acquire() != nil {
		return 0
	}
	defer b.h.release()
	return int64(C.ggml_backend_buffer_get_size(b.b))
}

// Type returns the kind of memory, nil when closed.
// C: ggml_backend_buffer_get_type.
func (b *Buffer) Type() *BufferType {
	if b.h.acquire() != nil {
		return nil
	}
	defer b.h.release()
	return &BufferType{C.ggml_backend_buffer_get_type(b.b)}
}

// Clear sets every byte. C: ggml_backend_buffer_clear.
func (b *Buffer) Clear(value byte) error {
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	if err := guardError(C.goggml_buffer_clear(b.b, C.uint8_t(value))); err != nil {
		return err
	}
	return wrapDeviceErr(deviceOf(C.ggml_backend_buffer_get_type(b.b)))
}

// SetUsage tells the scheduler what the buffer is for; nothing when closed.
// C: ggml_backend_buffer_set_usage.
func (b *Buffer) SetUsage(u Usage) {
	if b.h.acquire() != nil {
		return
	}
	defer b.h.release()
	C.ggml_backend_buffer_set_usage(b.b, C.enum_ggml_backend_buffer_usage(u))
}

// heldType and heldSize are Type and Size of a buffer that is retained, and may be
// closed meanwhile.
func (b *Buffer) heldType() *BufferType {
	return &BufferType{C.ggml_backend_buffer_get_type(b.b)}
}

func (b *Buffer) heldSize() int64 { return int64(C.ggml_backend_buffer_get_size(b.b)) }

// placer gives tensors their memory inside a buffer.
type placer func(t *C.struct_ggml_tensor) C.goggml_int

// place allocates one tensor with f.
func (b *Buffer) place(t *Tensor, f placer) error {
	const op = "tensor_alloc"
	if err := t.missing(op); err != nil {
		return err
	}
	release, err := retainChecked(t.ctx.withDependencies())
	if err != nil {
		return during(err, op, t.operand())
	}
	defer release()
	if err := b.h.acquire(); err != nil {
		return during(err, op, t.operand())
	}
	defer b.h.release()
	t.ctx.attach(b)
	t.ctx.mu.Lock()
	defer t.ctx.mu.Unlock()
	if t.t.view_src != nil {
		return t.errorf(op, nil, "the tensor is a view; it gets the memory of what it is a view of")
	}
	if t.t.data != nil {
		return t.errorf(op, nil, "the tensor has memory already")
	}
	if bt := b.Type(); bt != nil && bt.repacks() && !bt.supportsMulMat(t) {
		return t.errorf(op, nil, "%s holds repacked weights, but none of this type and shape", bt.Name())
	}
	r := f(t.t)
	if err := guardError(r.error); err != nil {
		return t.errorf(op, nil, "%v", err)
	}
	if r.value != C.GGML_STATUS_SUCCESS {
		return t.errorf(op, ErrOutOfMemory, "the buffer refuses the tensor")
	}
	return t.present(op)
}

// A TensorAllocator puts tensors into a buffer one after the other. It needs
// no Close, and is safe for concurrent use. C: struct ggml_tallocr.
type TensorAllocator struct {
	buffer *Buffer
	mu     sync.Mutex
	a      C.struct_ggml_tallocr
}

// NewTensorAllocator starts at the beginning of the buffer.
// C: ggml_tallocr_new.
func NewTensorAllocator(b *Buffer) (*TensorAllocator, error) {
	if b == nil {
		return nil, fmt.Errorf("ggml: tensor allocator: the buffer is nil")
	}
	if err := b.h.acquire(); err != nil {
		return nil, err
	}
	defer b.h.release()
	return &TensorAllocator{buffer: b, a: C.ggml_tallocr_new(b.b)}, nil
}

// Alloc gives the tensor the next free memory of the buffer. It fails when
// the buffer is too small, and when the tensor has memory.
// C: ggml_tallocr_alloc.
func (a *TensorAllocator) Alloc(t *Tensor) error {
	if a.buffer == nil {
		return zeroError()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var full error
	err := a.buffer.place(t, func(p *C.struct_ggml_tensor) C.goggml_int {
		size := a.buffer.heldSize()
		need, err := a.buffer.heldType().paddedRoom(t)
		if free := size - int64(a.a.offset); err != nil {
			full = err
			return C.goggml_int{value: C.GGML_STATUS_ALLOC_FAILED}
		} else if need > free {
			full = t.errorf("tensor_alloc", ErrOutOfMemory, "the buffer is too small: the tensor takes %d bytes, %d of %d are free", need, max(0, free), size)
			return C.goggml_int{value: C.GGML_STATUS_ALLOC_FAILED}
		}
		return C.goggml_tallocr_alloc(&a.a, p)
	})
	if full != nil {
		return full
	}
	return err
}

// Allocate gives memory of the buffer type to every tensor of the context
// that has none: leaves, and results of ops too. It makes one buffer, or
// several where the device bounds their size; Close of the result frees all.
//
// Use it for tensors that stay (weights, inputs); a [GraphAllocator] or a
// [Scheduler] reuses the memory of a graph's intermediate results.
// C: ggml_backend_alloc_ctx_tensors_from_buft, and ggml_backend_alloc_ctx_tensors
// with the type of [Backend.BufferType].
func (c *Context) Allocate(bt *BufferType) (*Buffers, error) {
	own, views, release, err := c.unallocated(bt)
	if err != nil {
		return nil, err
	}
	defer release()
	all, err := allocateTensors(own, bt)
	if err != nil {
		return nil, err
	}
	if err := initViews(c, views); err != nil {
		all.Close()
		return nil, err
	}
	return all, nil
}

// unallocated lists the tensors that have no memory of the type yet, and views,
// with the contexts retained.
func (c *Context) unallocated(bt *BufferType) (own, views []*Tensor, release func(), err error) {
	const op = "alloc_ctx_tensors"
	if bt == nil {
		return nil, nil, nil, &OpError{Op: op, Reason: "the buffer type is nil", Caller: callerLine()}
	}
	if bt.isZero() {
		return nil, nil, nil, during(zeroError(), op)
	}
	if release, err = retainChecked(c.withDependencies()); err != nil {
		return nil, nil, nil, during(err, op)
	}
	for _, t := range c.tensorList() {
		switch {
		case t.t.view_src != nil:
			views = append(views, t)
		case t.t.data == nil:
			own = append(own, t)
		}
	}
	return own, views, release, nil
}

// allocateTensors puts tensors into as few buffers as the type allows.
func allocateTensors(tensors []*Tensor, bt *BufferType) (*Buffers, error) {
	all := &Buffers{}
	for len(tensors) > 0 {
		n, size, err := fitting(tensors, bt)
		if err != nil {
			all.Close()
			return nil, err
		}
		b, err := bt.NewBuffer(size)
		if err != nil {
			all.Close()
			return nil, err
		}
		all.list = append(all.list, b)
		if err := b.placeAll(tensors[:n]); err != nil {
			all.Close()
			return nil, err
		}
		tensors = tensors[n:]
	}
	return all, nil
}

// fitting counts the first tensors that go into one buffer, and their bytes.
func fitting(tensors []*Tensor, bt *BufferType) (n int, size int64, err error) {
	limit := bt.MaxSize()
	for _, t := range tensors {
		need, err := bt.paddedRoom(t)
		if err != nil {
			return 0, 0, err
		}
		if n > 0 && size+need > limit {
			break
		}
		n, size = n+1, size+need
	}
	return n, size, nil
}

func (b *Buffer) placeAll(tensors []*Tensor) error {
	a, err := NewTensorAllocator(b)
	if err != nil {
		return err
	}
	for _, t := range tensors {
		if err := a.Alloc(t); err != nil {
			return err
		}
	}
	return nil
}

// initViews gives views the memory of what they look at.
func initViews(c *Context, views []*Tensor) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range views {
		C.goggml_drop_stale(t.t)
		if t.t.data != nil || t.t.view_src.data == nil {
			continue // or of a tensor of another context that has no memory yet
		}
		r := C.goggml_view_init(t.t)
		if err := guardError(r.error); err != nil {
			return t.errorf("view_init", nil, "%v", err)
		}
	}
	return nil
}

// Buffers is what [Context.Allocate] made. It is safe for concurrent use.
type Buffers struct{ list []*Buffer }

// Close frees the memory of all of them, see [Buffer.Close].
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
	var n int64
	for _, buf := range b.list {
		n += buf.Size()
	}
	return n
}

// Clear sets every byte.
func (b *Buffers) Clear(value byte) error {
	for _, buf := range b.list {
		if err := buf.Clear(value); err != nil {
			return err
		}
	}
	return nil
}

// SetUsage tells the scheduler what the memory is for.
func (b *Buffers) SetUsage(u Usage) {
	for _, buf := range b.list {
		buf.SetUsage(u)
	}
}
