package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"sync"
)

// A TensorAllocator places tensors in a buffer one after another. It needs no Close and is safe for
// concurrent use. C: struct ggml_tallocr.
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

// Allocate places the tensor in the next free memory of the buffer. It fails if the buffer is too
// small or the tensor is already allocated. C: ggml_tallocr_alloc.
func (a *TensorAllocator) Allocate(t *Tensor) error {
	a = made(a)
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
			full = t.errorf(ErrOutOfMemory, "the buffer is too small: the tensor takes %d bytes, %d of %d are free", need, max(0, free), size)
			return C.goggml_int{value: C.GGML_STATUS_ALLOC_FAILED}
		}
		return C.goggml_tallocr_alloc(&a.a, p)
	})
	if full != nil {
		return full
	}
	return err
}

// Allocate allocates every unallocated tensor of the context, including results of ops, in memory
// of the buffer type. It makes one buffer, or several if the device limits their size. Closing the
// result frees all of them.
//
// Use it for tensors that stay (weights, inputs); a [GraphAllocator] or a [Scheduler] reuses the
// memory of a graph's intermediate results. C: ggml_backend_alloc_ctx_tensors_from_buft, and
// ggml_backend_alloc_ctx_tensors with the type of [Backend.BufferType].
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

// unallocated lists the context's tensors without memory, and its views, with the contexts retained.
func (c *Context) unallocated(bt *BufferType) (own, views []*Tensor, release func(), err error) {
	if bt == nil {
		return nil, nil, nil, callError(nil, "the buffer type is nil")
	}
	if bt.isZero() {
		return nil, nil, nil, during(zeroError())
	}
	if release, err = retainChecked(c.withDependencies()); err != nil {
		return nil, nil, nil, during(err)
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

// allocateTensors places the tensors in as few buffers as the type allows.
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

// fitting returns how many of the first tensors fit into one buffer, and their size in bytes.
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
		if err := a.Allocate(t); err != nil {
			return err
		}
	}
	return nil
}

// initViews points views at the memory of their source tensors.
func initViews(c *Context, views []*Tensor) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range views {
		C.goggml_drop_stale(t.t)
		if t.t.data != nil || t.t.view_src.data == nil {
			continue // the source is unallocated and belongs to another context
		}
		r := C.goggml_view_init(t.t)
		if err := guardError(r.error); err != nil {
			return t.errorf(nil, "%v", err)
		}
	}
	return nil
}

// Allocate allocates the tensors in memory of this type, as [Context.Allocate] does for a whole
// context. C: ggml_backend_buft_alloc_buffer_n.
func (bt *BufferType) Allocate(tensors ...*Tensor) (*Buffers, error) {
	if bt.isZero() {
		return nil, during(zeroError())
	}
	_, release, err := retainTensors(tensors)
	if err != nil {
		return nil, err
	}
	defer release()
	return allocateTensors(tensors, bt)
}

// retainTensors retains the tensors and their dependencies until release.
func retainTensors(tensors []*Tensor) (list []*C.struct_ggml_tensor, release func(), err error) {
	var contexts []*Context
	for _, t := range tensors {
		if err := t.missing(); err != nil {
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
		return nil, nil, during(err)
	}
	return list, release, nil
}
