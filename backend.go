package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goggml/ggml/internal/computethread"
	"github.com/goggml/ggml/internal/limits"
	"github.com/goggml/ggml/internal/testhook"
)

// A Backend is a stream of computations on a [Device]. It is safe for concurrent use: its
// computations run one at a time. To compute concurrently, use one backend per goroutine. C:
// ggml_backend_t.
type Backend struct {
	h      *handle
	b      C.ggml_backend_t
	device *Device

	mu      sync.Mutex // one computation at a time
	threads int        // 0: not set, ggml's default
	openMP  bool       // computes with OpenMP, unless threads is 1
	abort   *abortFlag
	fault   atomic.Pointer[string] // why the backend is broken
	pool    *backendPool           // guarded by mu

	pending *pendingWork
	async   bool // the device continues after a call has returned
}

// abortFlag is polled by the backend's threads; it lives in C memory.
type abortFlag struct{ p *int32 }

func newAbortFlag() *abortFlag { return &abortFlag{(*int32)(C.calloc(1, 4))} }

func (f *abortFlag) lower() { atomic.StoreInt32(f.p, C.GOGGML_RUN) }

// raise stops the computation, unless the computation is committed to run to its end.
func (f *abortFlag) raise() { atomic.CompareAndSwapInt32(f.p, C.GOGGML_RUN, C.GOGGML_ABORT) }

func (f *abortFlag) cPtr() *C.int32_t { return (*C.int32_t)(unsafe.Pointer(f.p)) }

// NewBackend opens a stream of computations on the device. C: ggml_backend_dev_init.
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

// NewBestBackend opens the first GPU, or the CPU if there is no GPU. C: ggml_backend_init_best.
func NewBestBackend() (*Backend, error) {
	for _, t := range []DeviceType{GPU, IntegratedGPU} {
		if d, err := DeviceByType(t); err == nil {
			return d.NewBackend()
		}
	}
	return NewCPUBackend(0)
}

// Close frees the backend when the last computation on it has ended. It never fails. C:
// ggml_backend_free.
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

// isOf reports whether the backend belongs to the named plugin.
func (b *Backend) isOf(registry string) bool {
	return b != nil && b.device.Registry().Name() == registry
}

// GUID identifies the kind of backend. All devices of a plugin share it; compare two with ==. It is
// zero if the backend is closed. Plumbing: programs rarely need it. C: ggml_backend_guid,
// ggml_guid_matches.
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

// BufferType returns the memory that the backend computes in, with its alignment and its maximum
// buffer size. C: ggml_backend_get_default_buffer_type, ggml_backend_get_alignment,
// ggml_backend_get_max_size.
func (b *Backend) BufferType() *BufferType {
	b = made(b)
	return b.device.BufferType()
}

// SetThreads sets the number of threads of a backend that computes on the processor. C:
// ggml_backend_set_n_threads of its plugin; for the CPU, ggml_backend_cpu_set_n_threads.
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

// setThreads sets the number of threads and reports whether the backend has threads. The caller
// holds mu.
func (b *Backend) setThreads(n int) bool {
	if !bool(C.goggml_backend_set_threads(b.b, C.int(n))) {
		return false
	}
	b.threads = n
	return true
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
	defer func() { release() }() // after unlocking
	defer b.mu.Unlock()
	err := guardError(C.goggml_backend_synchronize(b.b))
	release = b.pending.finish()
	if err == nil {
		err = wrapDeviceErr(b.device.d)
	}
	return err
}

// NewCPUBackend opens the processor with the given number of threads; 0 means [DefaultThreads]. C:
// ggml_backend_cpu_init.
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

// MaxThreads is the maximum number of threads of a backend. C: GGML_MAX_N_THREADS.
const MaxThreads = C.GGML_MAX_N_THREADS

// DefaultThreads returns the number of threads that suits this machine: its physical cores, limited
// by the process's affinity, by GOMAXPROCS and by the quota of a container, rounded to the nearest
// number. More threads are slower.
func DefaultThreads() int {
	return min(limits.Cores(), MaxThreads)
}
