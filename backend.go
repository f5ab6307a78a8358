package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Backend is a stream of computations on a [Device]. It is safe for
// concurrent use: computations on one backend wait for each other. Use a
// backend a goroutine to compute at once. C: ggml_backend_t.
type Backend struct {
	h      *handle
	b      C.ggml_backend_t
	device *Device

	mu      sync.Mutex // one computation at a time
	threads int        // 0 until they are set: the library's default
	teams   bool       // it computes with a team of threads, unless threads is 1
	abort   *abortFlag
	fault   atomic.Pointer[string] // why the backend is broken
	pool    *backendPool           // guarded by mu

	pending  *pendingWork
	deferred bool // the device works on after a call has returned
}

// abortFlag is polled by the backend's threads; it lives in C memory.
type abortFlag struct{ p *int32 }

func newAbortFlag() *abortFlag        { return &abortFlag{(*int32)(C.calloc(1, 4))} }
func (f *abortFlag) set(v int32)      { atomic.StoreInt32(f.p, v) }
func (f *abortFlag) cPtr() *C.int32_t { return (*C.int32_t)(unsafe.Pointer(f.p)) }

// NewBackend opens a stream of computations on the device.
// C: ggml_backend_dev_init.
func (d *Device) NewBackend() (*Backend, error) {
	r := C.goggml_dev_init(d.d, nil)
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: device %s: %w", d.Name(), err)
	}
	if r.value == nil {
		return nil, fmt.Errorf("ggml: device %s cannot be opened: its driver refuses it, or it is out of memory", d.Name())
	}
	cb := C.ggml_backend_t(r.value)
	b := &Backend{b: cb, device: d, abort: newAbortFlag(), teams: d.Type() == CPU, pool: &backendPool{}, pending: &pendingWork{}, deferred: d.Properties().Async}
	flag, pool, pending := b.abort, b.pool, b.pending
	keepComputeThread()
	C.goggml_backend_set_abort_flag(cb, flag.cPtr())
	h, err := newHandle("backend", func() {
		if e := C.goggml_backend_synchronize(cb); e != nil {
			C.free(unsafe.Pointer(e))
		}
		pending.done()()
		C.ggml_backend_free(cb)
		dropComputeThread()
		pool.set(nil)
		C.free(unsafe.Pointer(flag.p))
	})
	if err != nil {
		return nil, err
	}
	b.h = h
	closeOnCollect(b, h)
	if err := gone(d.d); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// NewBestBackend opens the first GPU, or the CPU when there is none.
// C: ggml_backend_init_best.
func NewBestBackend() (*Backend, error) {
	for _, t := range []DeviceType{GPU, IntegratedGPU} {
		if d, err := DeviceByType(t); err == nil {
			return d.NewBackend()
		}
	}
	return NewCPUBackend(0)
}

// Close frees the backend once no computation uses it any more. It never
// fails. C: ggml_backend_free.
func (b *Backend) Close() error {
	if b != nil {
		b.h.close()
	}
	return nil
}

// Name names the backend. C: ggml_backend_name.
func (b *Backend) Name() string { return b.device.Name() }

// GUID identifies the kind of backend, the same for all devices of a plugin;
// zero when closed; two are compared by ==.
// C: ggml_backend_guid, ggml_guid_matches.
func (b *Backend) GUID() (guid [16]byte) {
	if b.h.acquire() != nil {
		return guid
	}
	defer b.h.release()
	copy(guid[:], unsafe.Slice((*byte)(unsafe.Pointer(C.ggml_backend_guid(b.b))), len(guid)))
	return guid
}

// Device returns the device. C: ggml_backend_get_device.
func (b *Backend) Device() *Device { return b.device }

// BufferType is the memory that the backend computes in, with its alignment
// and the size of its largest buffer. C: ggml_backend_get_default_buffer_type,
// ggml_backend_get_alignment, ggml_backend_get_max_size.
func (b *Backend) BufferType() *BufferType { return b.device.BufferType() }

// SetThreads sets the number of threads of a backend that computes on the
// processor. C: ggml_backend_set_n_threads of its plugin, which of the CPU is
// ggml_backend_cpu_set_n_threads.
func (b *Backend) SetThreads(n int) error {
	if n < 1 || n > C.GGML_MAX_N_THREADS {
		return fmt.Errorf("ggml: %d threads: a backend takes 1 to %d", n, C.GGML_MAX_N_THREADS)
	}
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.pool.pool; p != nil && n > p.threads {
		return fmt.Errorf("ggml: %d threads: the thread pool of the backend has %d", n, p.threads)
	}
	if !b.setThreads(n) {
		return fmt.Errorf("ggml: backend %s has no threads to set", b.Name())
	}
	return nil
}

// setThreads is called with mu held. It reports whether the backend has any.
func (b *Backend) setThreads(n int) bool {
	if !bool(C.goggml_backend_set_threads(b.b, C.int(n))) {
		return false
	}
	b.threads = n
	return true
}

// Compute runs the graph and waits for the end. The graph's tensors are
// allocated; the device supports its ops. When ctx is cancelled the CPU stops
// before the next node and Compute returns ctx's cause; the backend stays
// usable.
//
// C: ggml_backend_graph_compute; of the CPU ggml_graph_compute_with_ctx,
// ggml_backend_cpu_set_abort_callback.
func (b *Backend) Compute(ctx context.Context, g *Graph) error {
	const op = "graph_compute"
	unpin, err := g.check(op, []*Device{b.device}, checkReady)
	if err != nil {
		return err
	}
	defer unpin()
	return g.compute(ctx, op, []*Backend{b}, func() C.goggml_int {
		return runOn([]*Backend{b}, C.goggml_backend_compute, unsafe.Pointer(b.b), unsafe.Pointer(g.g))
	})
}

// compute is run for an f that waits for the end, also of what the backends had
// begun before.
func (g *Graph) compute(ctx context.Context, op string, backends []*Backend, f func() C.goggml_int) error {
	var releases []func()
	err := g.run(ctx, op, backends, func() C.goggml_int {
		r := f()
		for _, b := range backends {
			if b.deferred && r.error == nil && r.value == C.GGML_STATUS_SUCCESS {
				releases = append(releases, b.pending.done())
			}
		}
		return r
	})
	for _, release := range releases {
		release()
	}
	return err
}

// run runs f, which uses the backends through runOn, alone and until ctx is
// cancelled.
func (g *Graph) run(ctx context.Context, op string, backends []*Backend, f func() C.goggml_int) error {
	if ctx == nil {
		return g.errorf(op, nil, "the context.Context is nil")
	}
	unlock, err := lockBackends(backends)
	if err != nil {
		return during(err, op, g.operand())
	}
	defer unlock()
	for _, b := range backends {
		if why := b.fault.Load(); why != nil {
			return g.errorf(op, ErrBroken, "backend %s is broken by an earlier failure: %s", b.Name(), *why)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	stop := watch(ctx, backends)
	custom := g.startCustom(backends)
	unlockPools, unlockDevices := lockPools(backends), lockDevices(backends)
	r := f()
	unlockDevices()
	unlockPools()
	stop()
	failure := custom.end(g)
	if failure != nil && r.error == nil {
		return failure
	}
	return g.finish(ctx, op, backends, r)
}

// watch raises the abort flags when ctx is cancelled. stop ends that; no
// flag is touched after it returns.
func watch(ctx context.Context, backends []*Backend) (stop func()) {
	for _, b := range backends {
		b.abort.set(0)
	}
	raised := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		for _, b := range backends {
			b.abort.set(1)
		}
		close(raised)
	})
	return func() {
		if !cancel() {
			<-raised
		}
	}
}

func (g *Graph) finish(ctx context.Context, op string, backends []*Backend, r C.goggml_int) error {
	if err := guardError(r.error); err != nil {
		if r.value == neverRan {
			return g.errorf(op, ErrOutOfMemory, "%v", err)
		}
		// The other threads may wait for ever for the one that left.
		why := err.Error()
		for _, b := range backends {
			b.fault.Store(&why)
		}
		return g.errorf(op, ErrBroken, "%s", why)
	}
	for _, b := range backends {
		if err := lost(b.device.d); err != nil {
			return g.errorf(op, err, "%v", err)
		}
	}
	switch r.value {
	case C.GGML_STATUS_SUCCESS:
		return nil
	case C.GGML_STATUS_ABORTED:
		return context.Cause(ctx)
	case C.GGML_STATUS_ALLOC_FAILED:
		return g.errorf(op, ErrOutOfMemory, "out of memory; use a smaller batch or context")
	}
	status := Status(r.value)
	return g.errorf(op, status, "%v", status)
}

// Synchronize waits until all computations and copies are done.
// C: ggml_backend_synchronize.
func (b *Backend) Synchronize() error {
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	b.mu.Lock()
	err := guardError(C.goggml_backend_synchronize(b.b))
	release := b.pending.done()
	b.mu.Unlock()
	release()
	if err == nil {
		err = gone(b.device.d)
	}
	return err
}

// NewCPUBackend opens the processor with that many threads; 0 stands for
// [DefaultThreads]. C: ggml_backend_cpu_init.
func NewCPUBackend(threads int) (*Backend, error) {
	d, err := DeviceByType(CPU)
	if err != nil {
		return nil, err
	}
	return d.newWithThreads(threads)
}

func (d *Device) newWithThreads(threads int) (*Backend, error) {
	if threads == 0 {
		threads = DefaultThreads()
	}
	b, err := d.NewBackend()
	if err != nil {
		return nil, err
	}
	if err := b.SetThreads(threads); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// DefaultThreads is the number of threads that suits this machine: its
// physical cores, as far as the process may use them. More is slower.
func DefaultThreads() int {
	n := runtime.GOMAXPROCS(0)
	if cores := physicalCores(); cores > 0 {
		n = min(n, cores)
	}
	return max(1, min(n, C.GGML_MAX_N_THREADS))
}
