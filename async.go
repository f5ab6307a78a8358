package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// pendingWork is what the work that a backend has begun and not finished
// needs: memory of Go, contexts and buffers. It is apart from the backend so
// that its clean-up can let go of it.
type pendingWork struct {
	mu       sync.Mutex
	pinner   runtime.Pinner
	releases []func()
}

func (p *pendingWork) add(memory *byte, release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if memory != nil {
		p.pinner.Pin(memory)
	}
	p.releases = append(p.releases, release)
}

// done lets go of memory; the backend has finished. The caller calls release for
// the rest once it holds no locks: it may free what waits for this backend.
func (p *pendingWork) done() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	releases := p.releases
	p.releases = nil
	p.pinner.Unpin()
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

// keep has memory and contexts, which are pinned, stay so until the backend has
// finished. The backend is locked.
func (b *Backend) keep(memory *byte, contexts []*Context, unpin func()) {
	for _, c := range contexts {
		c.mu.Lock()
		for _, r := range c.rented {
			r.lease.owe(b)
		}
		c.mu.Unlock()
	}
	b.pending.add(memory, unpin)
}

// inMemory demands that a tensor, which is pinned, lies where the backend can
// copy from and to in the order of its work.
func (b *Backend) inMemory(op string, t *Tensor) error {
	root := t.root()
	if root.buffer == nil {
		return nil // and so an error of the access
	}
	bt := BufferType{C.ggml_backend_buffer_get_type(root.buffer)}
	if !b.device.SupportsBufferType(&bt) {
		return t.errorf(op, nil, "the tensor lies in memory of kind %s, to which backend %s has no access; use the one that has, or CopyTensor", bt.Name(), b.Name())
	}
	return nil
}

// WriteAsync is [Tensor.WriteBytes] in the order of the backend's work: after
// what it has begun, before what it begins later. Where the device can, it
// returns at once: do not change p, nor read the tensor otherwise, before
// [Backend.Synchronize]. The tensor lies in memory of the backend.
// C: ggml_backend_tensor_set_async.
func (b *Backend) WriteAsync(t *Tensor, p []byte, offset int64) error {
	return b.async("set_async", t, p, int64(len(p)), offset, C.GGML_TENSOR_FLAG_INPUT, func() *C.char {
		return C.goggml_tensor_set_async(b.b, t.t, unsafe.Pointer(&p[0]), C.size_t(offset), C.size_t(len(p)))
	})
}

// ReadAsync is [Tensor.ReadBytes] in the order of the backend's work; p has the
// data after [Backend.Synchronize]. See WriteAsync.
// C: ggml_backend_tensor_get_async.
func (b *Backend) ReadAsync(t *Tensor, p []byte, offset int64) error {
	return b.async("get_async", t, p, int64(len(p)), offset, C.GGML_TENSOR_FLAG_OUTPUT, func() *C.char {
		return C.goggml_tensor_get_async(b.b, t.t, unsafe.Pointer(&p[0]), C.size_t(offset), C.size_t(len(p)))
	})
}

// async runs f, which begins a copy between memory and n bytes of the tensor.
func (b *Backend) async(op string, t *Tensor, memory []byte, n, offset int64, flag C.int32_t, f func() *C.char) error {
	if err := t.missing(op); err != nil {
		return err
	}
	if b == nil {
		return t.errorf(op, nil, "the backend is nil")
	}
	if err := b.h.acquire(); err != nil {
		return during(err, op, t.operand())
	}
	defer b.h.release()
	// Before the lock: it may wait for a computation that waits for the lock.
	contexts := t.ctx.closure()
	unpin, err := pin(contexts)
	if err != nil {
		return during(err, op, t.operand())
	}
	b.mu.Lock()
	if err = b.inMemory(op, t); err == nil {
		err = t.accessPinned(op, int(n), offset, flag, f)
	}
	kept := err == nil && b.deferred
	if kept {
		b.keep(unsafe.SliceData(memory), contexts, unpin)
	}
	b.mu.Unlock()
	if !kept {
		unpin()
	}
	return err
}

// CopyTensorAsync is [CopyTensor] in the order of the work of the backends, of
// which one has src and the other dst: it begins after what from has begun,
// and before what to begins later. See [Backend.WriteAsync].
// C: ggml_backend_tensor_copy_async.
func CopyTensorAsync(from, to *Backend, dst, src *Tensor) error {
	const op = "tensor_copy_async"
	if from == nil || to == nil || dst == nil || src == nil {
		return &OpError{Op: op, Operands: []Operand{src.operand(), dst.operand()}, Reason: "a backend or a tensor is nil", Caller: callerLine(), Err: errNilTensor}
	}
	unpin, err := pinCopy(op, dst, src)
	if err != nil {
		return err
	}
	unlock, err := lockBackends([]*Backend{from, to})
	if err != nil {
		unpin()
		return during(err, op, src.operand(), dst.operand())
	}
	if err = from.inMemory(op, src); err == nil {
		err = to.inMemory(op, dst)
	}
	if err == nil {
		err = copyPinned(op, dst, src, func() *C.char { return C.goggml_tensor_copy_async(from.b, to.b, src.t, dst.t) })
	}
	kept := err == nil && (from.deferred || to.deferred)
	if kept { // the copy may be the work of either
		contexts, release := append(src.ctx.closure(), dst.ctx.closure()...), countdown(2, unpin)
		from.keep(nil, contexts, release)
		to.keep(nil, contexts, release)
	}
	unlock()
	if !kept {
		unpin()
	}
	return err
}

// countdown is f at the n-th call.
func countdown(n int64, f func()) func() {
	left := &atomic.Int64{}
	left.Store(n)
	return func() {
		if left.Add(-1) == 0 {
			f()
		}
	}
}

// lockBackends holds and locks backends, each once, and always in the same
// order, so that two calls cannot wait for each other.
func lockBackends(backends []*Backend) (unlock func(), err error) {
	backends = slices.Compact(slices.SortedFunc(slices.Values(backends), func(a, b *Backend) int {
		return cmp.Compare(uintptr(unsafe.Pointer(a.b)), uintptr(unsafe.Pointer(b.b)))
	}))
	for i, b := range backends {
		if err := b.h.acquire(); err != nil {
			for _, held := range backends[:i] {
				held.h.release()
			}
			return nil, err
		}
	}
	for _, b := range backends {
		b.mu.Lock()
	}
	return func() {
		for _, b := range backends {
			b.mu.Unlock()
			b.h.release()
		}
	}, nil
}

// An Event is a point in the work of a backend for which others can wait. Only
// devices have them whose [DeviceProperties] say so. It is safe for concurrent
// use. C: ggml_backend_event_t.
type Event struct {
	h      *handle
	e      C.ggml_backend_event_t
	device *Device
	mu     sync.Mutex // locked after backends
}

// NewEvent makes an event; devices that compute synchronously, like the CPU,
// have none. C: ggml_backend_event_new.
func (d *Device) NewEvent() (*Event, error) {
	ce, err := spareEvents.take(d)
	if err != nil {
		return nil, err
	}
	e := &Event{e: ce, device: d}
	dev := d.d
	e.h, err = newHandle("event", func() { spareEvents.put(dev, ce) })
	if err != nil {
		return nil, err
	}
	closeOnCollect(e, e.h)
	return e, nil
}

// spareEvents keeps the events that are closed for the next ones of their
// device: the library's RPC client never frees an event whole.
var spareEvents = eventPool{free: map[C.ggml_backend_dev_t][]C.ggml_backend_event_t{}}

type eventPool struct {
	mu   sync.Mutex
	free map[C.ggml_backend_dev_t][]C.ggml_backend_event_t
}

func (p *eventPool) take(d *Device) (C.ggml_backend_event_t, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if free := p.free[d.d]; len(free) > 0 {
		last := len(free) - 1
		p.free[d.d] = free[:last]
		return free[last], nil
	}
	r := C.goggml_event_new(d.d)
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: device %s: event: %w", d.Name(), err)
	}
	if r.value == nil {
		return nil, fmt.Errorf("ggml: device %s has no events; use Synchronize of its backends", d.Name())
	}
	return C.ggml_backend_event_t(r.value), nil
}

func (p *eventPool) put(d C.ggml_backend_dev_t, e C.ggml_backend_event_t) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free[d]) == maxSpareEvents {
		C.ggml_backend_event_free(e)
		return
	}
	p.free[d] = append(p.free[d], e)
}

const maxSpareEvents = 64

// Close ends the use of the event, which the next event of the device may be
// made of. It never fails. C: ggml_backend_event_free.
func (e *Event) Close() error {
	if e != nil {
		e.h.close()
	}
	return nil
}

// Record sets the event to the end of what the backend, one of the same
// device, has begun. C: ggml_backend_event_record.
func (e *Event) Record(b *Backend) error {
	return e.with(b, func() *C.char { return C.goggml_event_record(e.e, b.b) })
}

// Wait makes the backend, one of the same kind of device, begin nothing more
// until the event is reached; it does not wait itself.
// C: ggml_backend_event_wait.
func (e *Event) Wait(b *Backend) error {
	return e.with(b, func() *C.char { return C.goggml_event_wait(b.b, e.e) })
}

func (e *Event) with(b *Backend, f func() *C.char) error {
	if b == nil || b.device.Registry().r != e.device.Registry().r {
		return fmt.Errorf("ggml: event of device %s: it takes a backend of such a device", e.device.Name())
	}
	for _, h := range []*handle{b.h, e.h} {
		if err := h.acquire(); err != nil {
			return err
		}
		defer h.release()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	return guardError(f())
}

// Synchronize waits until the event is reached.
// C: ggml_backend_event_synchronize.
func (e *Event) Synchronize() error {
	if err := e.h.acquire(); err != nil {
		return err
	}
	defer e.h.release()
	e.mu.Lock()
	defer e.mu.Unlock()
	return guardError(C.goggml_event_synchronize(e.e))
}

// HasFunction tells whether the plugin offers a function by that name, beyond
// what all have. This package calls those it knows.
// C: ggml_backend_reg_get_proc_address.
func (r *Registry) HasFunction(name string) bool {
	return r.r != nil && withCString(name, func(s *C.char) bool { return C.ggml_backend_reg_get_proc_address(r.r, s) != nil })
}
