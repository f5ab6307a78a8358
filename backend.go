package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goggml/ggml/internal/computethread"
	"github.com/goggml/ggml/internal/limits"
	"github.com/goggml/ggml/internal/testhook"
)

// A Backend is a stream of computations on a [Device]. It is safe for
// concurrent use: computations on one backend wait for each other. Use a
// backend a goroutine to compute at once. C: ggml_backend_t.
type Backend struct {
	h      *handle
	b      C.ggml_backend_t
	device *Device

	mu      sync.Mutex // one computation at a time
	threads int        // 0 until they are set: ggml's default
	openMP  bool       // it computes with OpenMP, unless threads is 1
	abort   *abortFlag
	fault   atomic.Pointer[string] // why the backend is broken
	pool    *backendPool           // guarded by mu

	pending *pendingWork
	async   bool // the device goes on after a call has returned
}

// abortFlag is polled by the backend's threads; it lives in C memory.
type abortFlag struct{ p *int32 }

func newAbortFlag() *abortFlag { return &abortFlag{(*int32)(C.calloc(1, 4))} }

func (f *abortFlag) lower() { atomic.StoreInt32(f.p, C.GOGGML_RUN) }

// raise ends the computation, unless that is committed to run to its end.
func (f *abortFlag) raise() { atomic.CompareAndSwapInt32(f.p, C.GOGGML_RUN, C.GOGGML_ABORT) }

func (f *abortFlag) cPtr() *C.int32_t { return (*C.int32_t)(unsafe.Pointer(f.p)) }

// NewBackend opens a stream of computations on the device.
// C: ggml_backend_dev_init.
func (d *Device) NewBackend() (*Backend, error) {
	if d.isZero() {
		return nil, zeroError()
	}
	r := C.goggml_dev_init(d.d, nil)
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: device %s: %w", d.Name(), err)
	}
	if r.value == nil {
		return nil, fmt.Errorf("ggml: device %s cannot be opened: its driver refuses it, or it is out of memory", d.Name())
	}
	cb := C.ggml_backend_t(r.value)
	b := &Backend{b: cb, device: d, abort: newAbortFlag(), openMP: d.Type() == CPU, pool: &backendPool{}, pending: &pendingWork{}, async: d.Properties().Async || testhook.Async}
	flag, pool, pending := b.abort, b.pool, b.pending
	computethread.Retain()
	C.goggml_backend_set_abort_flag(cb, flag.cPtr())
	h, err := newHandle("backend", func() {
		if e := C.goggml_backend_synchronize(cb); e != nil {
			C.free(unsafe.Pointer(e))
		}
		pending.finish()()
		released(C.goggml_backend_free(cb))
		computethread.Release()
		pool.set(nil)
		C.free(unsafe.Pointer(flag.p))
	})
	if err != nil {
		return nil, err
	}
	b.h = h
	closeOnCollect(b, h)
	if err := wrapDeviceErr(d.d); err != nil {
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
func (b *Backend) Name() string {
	b = made(b)
	return b.device.Name()
}

// isOf reports whether the backend is of the plugin with that name.
func (b *Backend) isOf(registry string) bool {
	return b != nil && b.device.Registry().Name() == registry
}

// GUID identifies the kind of backend, the same for all devices of a plugin;
// zero when closed; two are compared by ==. Plumbing: programs rarely need it.
// C: ggml_backend_guid, ggml_guid_matches.
func (b *Backend) GUID() (guid [16]byte) {
	b = made(b)
	if b.h.acquire() != nil {
		return guid
	}
	defer b.h.release()
	copy(guid[:], unsafe.Slice((*byte)(unsafe.Pointer(C.ggml_backend_guid(b.b))), len(guid)))
	return guid
}

// Device returns the device. C: ggml_backend_get_device.
func (b *Backend) Device() *Device {
	b = made(b)
	return b.device
}

// BufferType is the memory that the backend computes in, with its alignment
// and the size of its largest buffer. C: ggml_backend_get_default_buffer_type,
// ggml_backend_get_alignment, ggml_backend_get_max_size.
func (b *Backend) BufferType() *BufferType {
	b = made(b)
	return b.device.BufferType()
}

// SetThreads sets the number of threads of a backend that computes on the
// processor. C: ggml_backend_set_n_threads of its plugin, which of the CPU is
// ggml_backend_cpu_set_n_threads.
func (b *Backend) SetThreads(n int) error {
	b = made(b)
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	if n < 1 || n > MaxThreads {
		return fmt.Errorf("ggml: %d threads: a backend takes 1 to %d", n, MaxThreads)
	}
	if err := computethread.CheckTeam(n); err != nil {
		return fmt.Errorf("ggml: %d threads: %w", n, err)
	}
	if err := lock(&b.mu); err != nil {
		return err
	}
	defer b.mu.Unlock()
	if p := b.pool.pool; p != nil && n > p.threads {
		return fmt.Errorf("ggml: %d threads: the thread pool of the backend has %d", n, p.threads)
	}
	if !b.setThreads(n) {
		return fmt.Errorf("ggml: backend %s has no threads to set", b.Name())
	}
	return nil
}

// setThreads is called with mu held. It reports whether the backend has threads.
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
// usable. A server of [AddRPCServer] computes to the end, while Compute returns: what
// uses its backend or the graph next waits for that.
//
// C: ggml_backend_graph_compute; of the CPU ggml_graph_compute_with_ctx,
// ggml_backend_cpu_set_abort_callback.
func (b *Backend) Compute(ctx context.Context, g *Graph) error {
	b = made(b)
	backends := []*Backend{b}
	return abandonable(ctx, backends, func() error {
		release, err := g.check([]*Device{b.device}, checkReady)
		if err != nil {
			return err
		}
		defer release()
		return g.compute(ctx, &computation{backends: backends}, func() (int64, error) {
			return runOn(backends, C.goggml_backend_compute, unsafe.Pointer(b.b), unsafe.Pointer(g.g))
		})
	})
}

// compute is run for an f that waits until the backends have finished, also what
// they had begun before.
func (g *Graph) compute(ctx context.Context, c *computation, f func() (int64, error)) error {
	var releases []func()
	err := g.run(ctx, c, func() (int64, error) {
		status, err := f()
		if err == nil && status == C.GGML_STATUS_SUCCESS {
			err = g.awaitRemote(ctx, c.backends)
		}
		for _, b := range c.backends {
			if b.async && err == nil && status == C.GGML_STATUS_SUCCESS {
				releases = append(releases, b.pending.finish())
			}
		}
		return status, err
	})
	for _, release := range releases {
		release()
	}
	return err
}

// run runs f, which uses the backends through runOn and returns a ggml_status,
// alone and until ctx is cancelled.
func (g *Graph) run(ctx context.Context, c *computation, f func() (int64, error)) error {
	if ctx == nil {
		return g.errorf(nil, "the context.Context is nil")
	}
	backends := c.backends
	c.graph, c.outer = g, calling()
	unlock, err := lockBackends(backends)
	if err != nil {
		return during(err, g.operand())
	}
	defer unlock()
	for _, b := range backends {
		if why := b.fault.Load(); why != nil {
			return g.errorf(ErrBroken, "backend %s is broken by an earlier failure: %s", b.Name(), *why)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	stop := watch(ctx, backends)
	c.startCustom()
	unlockPools, unlockDevices := lockPools(backends), lockDevices(backends)
	status, err := f()
	unlockDevices()
	unlockPools()
	stop()
	failure := c.endCustom()
	if failure != nil && err == nil {
		return failure
	}
	return g.finish(ctx, backends, status, err)
}

// runOn calls a C function f(a, b) that computes on the backends, which are
// locked. Where it computes with OpenMP, it runs on a compute thread.
func runOn(backends []*Backend, f, a, b unsafe.Pointer) (int64, error) {
	job := computethread.Job{
		Func: f, A: a, B: b,
		// The thread that computes with a thread pool takes part in it.
		RestoreAffinity: slices.ContainsFunc(backends, func(b *Backend) bool { return b.pool.pool != nil }),
	}
	if !slices.ContainsFunc(backends, func(b *Backend) bool { return b.openMP && b.threads != 1 }) {
		r := job.Call()
		return r.Value, guardError((*C.char)(r.Error))
	}
	r, err := job.Run()
	if err != nil {
		return 0, err
	}
	return r.Value, guardError((*C.char)(r.Error))
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
	if caller := calling(); slices.ContainsFunc(backends, func(b *Backend) bool { return caller.waitsFor(&b.mu) }) {
		for _, b := range backends {
			b.h.release()
		}
		return nil, busyError()
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

// watch raises the abort flags when ctx is cancelled. stop ends that; no
// flag is touched after it returns.
func watch(ctx context.Context, backends []*Backend) (stop func()) {
	for _, b := range backends {
		b.abort.lower()
	}
	raised := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		for _, b := range backends {
			b.abort.raise()
		}
		close(raised)
	})
	return func() {
		if !cancel() {
			<-raised
		}
	}
}

// finish turns what a computation returned into its error.
func (g *Graph) finish(ctx context.Context, backends []*Backend, status int64, err error) error {
	if errors.Is(err, computethread.ErrNotStarted) {
		return g.errorf(ErrOutOfMemory, "%v", err)
	}
	if err != nil {
		// The workers may wait for ever, at a barrier, for the thread that left.
		why, cause := err.Error(), ErrBroken
		if errors.Is(err, ErrOutOfMemory) {
			why, cause = fmt.Sprintf("out of memory%s; %s", rooms(backends), lessMemory), errors.Join(ErrBroken, ErrOutOfMemory)
		}
		for _, b := range backends {
			b.fault.Store(&why)
		}
		return g.errorf(cause, "%s", why)
	}
	for _, b := range backends {
		if err := deviceErr(b.device.d); err != nil {
			return g.errorf(err, "%v", err)
		}
	}
	switch status {
	case C.GGML_STATUS_SUCCESS:
		return nil
	case C.GGML_STATUS_ABORTED:
		return context.Cause(ctx)
	case C.GGML_STATUS_ALLOC_FAILED:
		return g.errorf(ErrOutOfMemory, "out of memory; use a smaller batch or context")
	}
	return g.errorf(Status(status), "%v", Status(status))
}

// Synchronize waits until all computations and copies are done.
// C: ggml_backend_synchronize.
func (b *Backend) Synchronize() error {
	b = made(b)
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	if err := lock(&b.mu); err != nil {
		return err
	}
	release := func() {}
	defer func() { release() }() // after the lock
	defer b.mu.Unlock()
	err := guardError(C.goggml_backend_synchronize(b.b))
	release = b.pending.finish()
	if err == nil {
		err = wrapDeviceErr(b.device.d)
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

// MaxThreads is the most threads that a backend has. C: GGML_MAX_N_THREADS.
const MaxThreads = C.GGML_MAX_N_THREADS

// DefaultThreads is the number of threads that suits this machine: its
// physical cores, as far as the process may use them by its affinity, by
// GOMAXPROCS and by the quota of a container, rounded to the nearest number.
// More is slower.
func DefaultThreads() int {
	return min(limits.Cores(), MaxThreads)
}
