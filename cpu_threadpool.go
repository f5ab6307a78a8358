package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/goggml/ggml/internal/computethread"
)

// A ThreadPriority selects how the system schedules threads. A priority above normal may need
// privileges; without them it is ignored, with a warning in the log. C: enum ggml_sched_priority.
type ThreadPriority int

// The priorities.
const (
	PriorityLow      ThreadPriority = C.GGML_SCHED_PRIO_LOW
	PriorityNormal   ThreadPriority = C.GGML_SCHED_PRIO_NORMAL
	PriorityMedium   ThreadPriority = C.GGML_SCHED_PRIO_MEDIUM
	PriorityHigh     ThreadPriority = C.GGML_SCHED_PRIO_HIGH
	PriorityRealtime ThreadPriority = C.GGML_SCHED_PRIO_REALTIME
)

// ThreadPoolParams are the settings of a [ThreadPool].
// C: struct ggml_threadpool_params.
type ThreadPoolParams struct {
	Threads   int            // 0 means DefaultThreads
	Priority  ThreadPriority // the zero value is normal
	Poll      int            // how idle threads wait: from 0 (sleep) to 100 (spin)
	StrictCPU bool           // pins each thread to one CPU, in turn
	CPUs      []int          // the CPUs that the threads may use; nil for all
	Paused    bool           // threads sleep until the first compute
}

// DefaultThreadPoolParams returns ggml's defaults for the given number of threads; 0 means
// [DefaultThreads]. C: ggml_threadpool_params_default, ggml_threadpool_params_init.
func DefaultThreadPoolParams(threads int) ThreadPoolParams {
	if threads == 0 {
		threads = DefaultThreads()
	}
	p := C.ggml_threadpool_params_default(C.int(threads))
	return ThreadPoolParams{
		Threads:   threads,
		Priority:  ThreadPriority(p.prio),
		Poll:      int(p.poll),
		StrictCPU: bool(p.strict_cpu),
		Paused:    bool(p.paused),
	}
}

// Matches reports whether a pool with settings p can replace a pool with settings q. C:
// ggml_threadpool_params_match.
func (p ThreadPoolParams) Matches(q ThreadPoolParams) bool {
	cp, err := p.c()
	cq, err2 := q.c()
	return err == nil && err2 == nil && bool(C.ggml_threadpool_params_match(&cp, &cq))
}

func (p ThreadPoolParams) c() (C.struct_ggml_threadpool_params, error) {
	var params C.struct_ggml_threadpool_params
	if p.Threads == 0 {
		p.Threads = DefaultThreads()
	}
	if p.Threads < 1 || p.Threads > MaxThreads {
		return params, fmt.Errorf("ggml: thread pool: %d threads: a pool has 1 to %d", p.Threads, MaxThreads)
	}
	if p.Priority < PriorityLow || p.Priority > PriorityRealtime {
		return params, fmt.Errorf("ggml: thread pool: there is no priority %d", p.Priority)
	}
	if p.Poll < 0 || p.Poll > 100 {
		return params, fmt.Errorf("ggml: thread pool: poll is %d; it must be 0 to 100", p.Poll)
	}
	C.ggml_threadpool_params_init(&params, C.int(p.Threads))
	params.prio = C.enum_ggml_sched_priority(p.Priority)
	params.poll = C.uint32_t(p.Poll)
	params.strict_cpu, params.paused = C.bool(p.StrictCPU), C.bool(p.Paused)
	for _, cpu := range p.CPUs {
		if cpu < 0 || cpu >= len(params.cpumask) {
			return params, fmt.Errorf("ggml: thread pool: CPU %d: they are numbered 0 to %d", cpu, len(params.cpumask)-1)
		}
		params.cpumask[cpu] = true
	}
	return params, nil
}

// A ThreadPool is a set of threads, with a priority and chosen CPUs, for CPU backends to compute
// with instead of threads of their own. Backends may share a pool; their computations then run one
// at a time.
//
// If the CPU plugin is built with OpenMP, as in distributions, the threads belong to OpenMP. They
// take the priority and the CPUs of the pool when a backend of two or more threads computes, and
// keep them; Poll and Pause have no effect.
//
// It is safe for concurrent use. C: ggml_threadpool_t.
type ThreadPool struct {
	h       *handle
	p       *C.struct_ggml_threadpool
	reg     C.ggml_backend_reg_t
	threads int
	mu      sync.Mutex // one computation at a time; locked after backends
}

// NewThreadPool makes a pool. C: ggml_threadpool_new.
func NewThreadPool(params ThreadPoolParams) (*ThreadPool, error) {
	cp, err := params.c()
	if err != nil {
		return nil, err
	}
	if err := computethread.CheckTeam(int(cp.n_threads)); err != nil {
		return nil, fmt.Errorf("ggml: thread pool: %d threads: %w", cp.n_threads, err)
	}
	d, err := DeviceByType(CPU)
	if err != nil {
		return nil, err
	}
	reg := d.Registry().r
	r := C.goggml_threadpool_new(reg, &cp)
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: thread pool: %w", err)
	}
	if r.value == nil {
		return nil, fmt.Errorf("ggml: thread pool: the CPU plugin of ggml %s cannot make one", Version())
	}
	p := &ThreadPool{p: (*C.struct_ggml_threadpool)(r.value), reg: reg, threads: int(cp.n_threads)}
	pool := p.p
	if p.h, err = newHandle("thread pool", func() { C.goggml_threadpool_free(reg, pool) }); err != nil {
		return nil, err
	}
	closeOnCollect(p, p.h)
	return p, nil
}

// Close ends the threads when the last backend stops using the pool. It never fails. C:
// ggml_threadpool_free.
func (p *ThreadPool) Close() error {
	if p != nil {
		p.h.close()
	}
	return nil
}

// NumThreads returns the number of threads. C: ggml_threadpool_get_n_threads.
func (p *ThreadPool) NumThreads() int {
	p = made(p)
	return p.threads
}

// Pause makes the threads sleep, instead of spin, until Resume or the next compute. C:
// ggml_threadpool_pause.
func (p *ThreadPool) Pause() error {
	p = made(p)
	return p.pause(true)
}

// Resume undoes Pause. C: ggml_threadpool_resume.
func (p *ThreadPool) Resume() error {
	p = made(p)
	return p.pause(false)
}

func (p *ThreadPool) pause(yes bool) error {
	leave, err := enter(p.h, &p.mu)
	if err != nil {
		return err
	}
	defer leave()
	if !bool(C.goggml_threadpool_pause(p.reg, p.p, C.bool(yes))) {
		return fmt.Errorf("ggml: thread pool: the CPU plugin of ggml %s cannot pause it", Version())
	}
	return nil
}

// backendPool is the pool of a backend. It has no reference to the backend, so that the backend's
// cleanup can release the pool.
type backendPool struct{ pool *ThreadPool }

func (b *backendPool) set(p *ThreadPool) {
	if b.pool != nil {
		b.pool.h.release()
	}
	b.pool = p
}

// SetThreadPool makes the backend compute with the threads of a pool: all of them, or fewer if
// SetThreads says so. If p is nil, the backend uses threads of its own again. A pool that is closed
// meanwhile stays valid for the backend. C: ggml_backend_cpu_set_threadpool.
func (b *Backend) SetThreadPool(p *ThreadPool) error {
	b = made(b)
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	if b.device.Type() != CPU {
		return fmt.Errorf("ggml: backend %s takes no thread pool; a CPU backend does", b.Name())
	}
	if err := lock(&b.mu); err != nil {
		return err
	}
	defer b.mu.Unlock()
	var pool *C.struct_ggml_threadpool
	if p != nil {
		if err := p.h.acquire(); err != nil {
			return err
		}
		pool = p.p
	}
	if old := b.pool.pool; old != nil {
		old.mu.Lock() // setting another pool pauses this one
		defer old.mu.Unlock()
	}
	if !bool(C.goggml_backend_set_threadpool(b.b, pool)) {
		if p != nil {
			p.h.release()
		}
		return fmt.Errorf("ggml: backend %s takes no thread pool", b.Name())
	}
	if p != nil {
		b.setThreads(p.threads)
	}
	b.pool.set(p)
	return nil
}

// lockPools locks the pools of the locked backends.
func lockPools(backends []*Backend) (unlock func()) {
	var pools []*ThreadPool
	for _, b := range backends {
		if p := b.pool.pool; p != nil && !slices.Contains(pools, p) {
			pools = append(pools, p)
		}
	}
	if len(pools) == 0 {
		return func() {}
	}
	slices.SortFunc(pools, func(a, b *ThreadPool) int {
		return cmp.Compare(uintptr(unsafe.Pointer(a.p)), uintptr(unsafe.Pointer(b.p)))
	})
	for _, p := range pools {
		p.mu.Lock()
	}
	return func() {
		for _, p := range pools {
			p.mu.Unlock()
		}
	}
}
