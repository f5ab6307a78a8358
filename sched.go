package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unsafe"
	"weak"
)

// A Scheduler computes a graph on several backends: each op where its weights (or the sources of
// its views) are, if the op is supported there, with copies in between. It allocates the graph like
// a [GraphAllocator]. Its counters are 0 once it is closed. It is safe for concurrent use;
// computations run one at a time. C: ggml_backend_sched_t.
type Scheduler struct {
	h        *handle
	s        C.ggml_backend_sched_t
	backends []*Backend
	options  SchedulerOptions
	current  *allocatorState
	sources  *schedSources

	// Guarded by current.mu.
	assigned []assignment
	owned    []*ownership
	split    weak.Pointer[Graph] // the last graph whose nodes were assigned to backends
	nodes    graphVersion        // nodes of that graph

	callbacks *schedCallbacks // kept alive here, because the table of callbacks does not
}

// SchedulerOptions are the settings of a scheduler; the zero value suits most uses.
type SchedulerOptions struct {
	GraphSize  int  // maximum number of nodes and leaves, 0 means 8192; each takes 40 KiB of address space
	Parallel   bool // overlap computes of several copies of the inputs
	OffloadOps bool // let a GPU compute ops whose weights are in system memory
}

// NewScheduler makes a scheduler on backends in order of preference; the last one is a CPU backend.
// C: ggml_backend_sched_new.
func NewScheduler(o SchedulerOptions, backends ...*Backend) (*Scheduler, error) {
	if err := checkBackends(backends); err != nil {
		return nil, err
	}
	if o.GraphSize <= 0 {
		o.GraphSize = 8192
	}
	if o.GraphSize > maxGraph {
		return nil, fmt.Errorf("ggml: scheduler: the graph size is %d; the limit is %d", o.GraphSize, maxGraph)
	}
	list := make([]C.ggml_backend_t, len(backends))
	parents := make([]*handle, len(backends))
	for i, b := range backends {
		list[i], parents[i] = b.b, b.h
	}
	var cs C.ggml_backend_sched_t
	s := &Scheduler{options: o, backends: slices.Clone(backends), current: &allocatorState{limit: o.GraphSize}, callbacks: &schedCallbacks{}, sources: &schedSources{}}
	s.callbacks.id = schedCallbackTable.add(s.callbacks)
	current, id, sources := s.current, s.callbacks.id, s.sources
	current.measure = func() []memoryUse {
		var uses []memoryUse
		for _, b := range list {
			device := deviceOf(C.ggml_backend_get_default_buffer_type(b))
			uses = append(uses, memoryUse{device, UsageCompute, int64(C.ggml_backend_sched_get_buffer_size(cs, b))})
		}
		return uses
	}
	h, err := newHandle("scheduler", func() {
		current.free()
		C.goggml_sources_free(&sources.c)
		released(C.goggml_sched_free(cs))
		schedCallbackTable.remove(id)
	}, parents...)
	if err != nil {
		return nil, err
	}
	if cs, err = o.newSched(list); err != nil {
		h.close()
		return nil, fmt.Errorf("ggml: scheduler: %w", err)
	}
	s.h, s.s = h, cs
	memory.track(h, current.measured)
	closeOnCollect(s, h)
	return s, nil
}

// newSched makes a scheduler for twice the largest graph: its hash table then never overflows, and
// is faster.
func (o *SchedulerOptions) newSched(backends []C.ggml_backend_t) (C.ggml_backend_sched_t, error) {
	size := C.size_t(2 * o.GraphSize)
	if err := checkGraphSize(o.GraphSize, size); err != nil {
		return nil, err
	}
	r := C.goggml_sched_new(&backends[0], nil, C.int(len(backends)), size, C.bool(o.Parallel), C.bool(o.OffloadOps))
	return C.ggml_backend_sched_t(r.value), guardError(r.error)
}

const (
	maxGraph    = 1 << 22 // limit of nodes and leaves
	maxBackends = 16      // GGML_SCHED_MAX_BACKENDS of ggml-backend.cpp
)

// checkGraphSize requires enough memory for what ggml reserves for this number of nodes: ggml
// asserts that it got it.
func checkGraphSize(graphSize int, room C.size_t) error {
	if bytes := C.goggml_sched_room(room); !bool(C.goggml_can_allocate(bytes)) {
		return fmt.Errorf("a GraphSize of %d takes %s of address space: %w; use one no larger than the nodes and leaves of the largest graph", graphSize, byteCount(int64(bytes)), ErrOutOfMemory)
	}
	return nil
}

func checkBackends(backends []*Backend) error {
	if len(backends) == 0 {
		return fmt.Errorf("ggml: scheduler: there is no backend; the last one must be a CPU backend")
	}
	if len(backends) > maxBackends {
		return fmt.Errorf("ggml: scheduler: there are %d backends; ggml schedules on at most %d: leave some out, or combine several devices with NewMetaDevice", len(backends), maxBackends)
	}
	var names []string
	for _, b := range backends {
		if b == nil {
			return fmt.Errorf("ggml: scheduler: a backend is nil")
		}
		if b.h == nil {
			return zeroError()
		}
		names = append(names, b.Name())
	}
	if last := backends[len(backends)-1]; last.device.Type() != CPU {
		return fmt.Errorf("ggml: scheduler: the backends are %s; the last one must be a CPU backend, which computes what the others do not", strings.Join(names, ", "))
	}
	return nil
}

// Close frees the scheduler and its memory; the backends stay open. It never
// fails. C: ggml_backend_sched_free.
func (s *Scheduler) Close() error {
	if s != nil {
		s.h.close()
	}
	return nil
}

// Reserve reserves memory for a graph without allocating it. Reserve the largest graph, and no
// later Allocate takes more memory. C: ggml_backend_sched_reserve.
func (s *Scheduler) Reserve(g *Graph) error {
	s = made(s)
	return s.allocate(g, reserveOnly, func() C.goggml_int { return s.reserve(g) })
}

// Allocate allocates the graph's unallocated tensors, in place of the last graph. C:
// ggml_backend_sched_reset, ggml_backend_sched_alloc_graph.
func (s *Scheduler) Allocate(g *Graph) error {
	s = made(s)
	return s.allocate(g, forCompute, func() C.goggml_int {
		before := s.current.measure()
		if r := s.reserve(g); r.error != nil || r.value == 0 {
			return r
		}
		s.callbacks.reserved(before, s.current.measure())
		return s.sources.keep(g, func() C.goggml_int { return C.goggml_sched_alloc(s.s, g.g) })
	})
}

// reserve reserves memory, and keeps the assignments of assign.
func (s *Scheduler) reserve(g *Graph) C.goggml_int {
	return s.current.replan(func() C.goggml_int {
		r := s.sources.keep(g, func() C.goggml_int { return C.goggml_sched_reserve(s.s, g.g) })
		if r.error == nil {
			r.error = s.assign(s.s, g)
		}
		return r
	})
}

func (s *Scheduler) allocate(g *Graph, p purpose, f func() C.goggml_int) error {
	if err := s.h.acquire(); err != nil {
		return during(err, g.operand())
	}
	defer s.h.release()
	return s.current.allocate(g, p, s.devices(), s.h, s, func() C.goggml_int {
		if e := C.goggml_sched_reset(s.s); e != nil {
			return C.goggml_int{error: e}
		}
		if e := C.goggml_sched_init_weight_views(g.g); e != nil {
			return C.goggml_int{error: e}
		}
		s.owned = nil
		if e := s.assign(s.s, g); e != nil {
			return C.goggml_int{error: e}
		}
		if e := s.own(g); e != nil {
			return C.goggml_int{error: e}
		}
		s.split, s.nodes = weak.Make(g), g.version()
		r := f()
		if err := s.callbacks.failure(); err != nil && r.error == nil {
			return s.current.refuse(fmt.Errorf("the callback: %w", err))
		}
		return r
	})
}

// assign assigns tensors to required backends.
func (s *Scheduler) assign(sched C.ggml_backend_sched_t, g *Graph) *C.char {
	cpu := s.backends[len(s.backends)-1]
	if e := C.goggml_sched_assign_leaves(sched, g.g, unsafe.SliceData(g.leaves), C.int(len(g.leaves)), cpu.b); e != nil {
		return e
	}
	contexts := g.ctx.withDependencies()
	s.assigned = slices.DeleteFunc(s.assigned, func(a assignment) bool { return a.tensor.ctx.h.closed() })
	for _, a := range s.assigned {
		if !containsContext(contexts, a.tensor.ctx) {
			continue // belongs to another graph
		}
		if e := C.goggml_sched_set_tensor_backend(sched, a.tensor.t, a.backend.b); e != nil {
			return e
		}
	}
	if e := s.keepOnCPU(sched, g); e != nil {
		return e
	}
	if e := s.moveRefused(sched, g); e != nil {
		return e
	}
	return s.assignOwned(sched)
}

func (s *Scheduler) devices() []*Device {
	var devices []*Device
	for _, b := range s.backends {
		devices = append(devices, b.device)
	}
	return devices
}

// Reset makes the tensors of the allocated graph unallocated, and clears SetTensorBackend. C:
// ggml_backend_sched_reset.
func (s *Scheduler) Reset() error {
	s = made(s)
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	s.current.free()
	s.assigned, s.split = nil, weak.Pointer[Graph]{}
	return guardError(C.goggml_sched_reset(s.s))
}

// Compute runs the graph, which Allocate has allocated, and waits for its end. It is cancelled like
// [Backend.Compute]. C: ggml_backend_sched_graph_compute.
func (s *Scheduler) Compute(ctx context.Context, g *Graph) error {
	s = made(s)
	return abandonable(ctx, s.backends, func() error { return s.compute(ctx, g, nil) })
}

// compute runs the graph; prepare changes the callbacks before and may be nil.
func (s *Scheduler) compute(ctx context.Context, g *Graph, prepare func(*schedCallbacks) (restore func())) error {
	return s.with(g, func() error {
		release, err := g.check(nil, checkReady)
		if err != nil {
			return err
		}
		defer release()
		if err := s.current.unchanged(g); err != nil {
			return err
		}
		if prepare != nil {
			defer prepare(s.callbacks)()
		}
		return s.eval(g, func(c *computation) error {
			return g.compute(ctx, c, func() (int64, error) {
				return s.sources.with(func() (int64, error) {
					return runOn(s.backends, C.goggml_sched_compute, unsafe.Pointer(s.s), unsafe.Pointer(g.g))
				})
			})
		})
	})
}

// enter retains and locks the scheduler until leave.
func (s *Scheduler) enter() (leave func(), err error) {
	if s.current == nil {
		return nil, zeroError()
	}
	return enter(s.h, &s.current.mu)
}

// with runs f with the scheduler locked, if the graph is the one that it allocated.
func (s *Scheduler) with(g *Graph, f func() error) error {
	leave, err := s.enter()
	if err != nil {
		return during(err, g.operand())
	}
	defer leave()
	if g == nil {
		return g.errorf(nil, "the graph is nil")
	}
	if s.current.graph.Value() != g {
		return g.errorf(ErrNotAllocated, "the graph is not the one that the scheduler allocated last; call Allocate first")
	}
	return f()
}

// schedSources are the copies on other backends with which a scheduler replaces operands when it
// splits a graph. ggml leaves them in the graph, even after another scheduler has taken the graph;
// here they are in place only while the scheduler computes.
type schedSources struct{ c C.goggml_sources }

// keep runs f, which splits the graph.
func (s *schedSources) keep(g *Graph, f func() C.goggml_int) C.goggml_int {
	saved := C.goggml_sources_save(g.g)
	if saved == nil {
		return C.goggml_int{}
	}
	r := f()
	if !bool(C.goggml_sources_restore(&s.c, g.g, saved)) && r.error == nil {
		return C.goggml_int{}
	}
	return r
}

// with runs f, which computes the graph.
func (s *schedSources) with(f func() (int64, error)) (int64, error) {
	C.goggml_sources_set(&s.c, true)
	defer C.goggml_sources_set(&s.c, false)
	return f()
}

// An assignment is a tensor that the caller has assigned to a backend.
type assignment struct {
	tensor  *Tensor
	backend *Backend
}

// SetTensorBackend makes the scheduler compute a tensor on one of its backends, which must support
// its op, from the next Allocate until Reset. If several backends compute in the same memory, as
// BLAS and the CPU do, the first one computes it. An op that changes a result in place is computed
// where the result is. C: ggml_backend_sched_set_tensor_backend.
func (s *Scheduler) SetTensorBackend(t *Tensor, b *Backend) error {
	s = made(s)
	if err := t.missing(); err != nil {
		return err
	}
	if err := s.h.acquire(); err != nil {
		return err
	}
	defer s.h.release()
	if !slices.Contains(s.backends, b) {
		return t.errorf(nil, "the backend is not one of the scheduler's")
	}
	if t.Op() != "none" && !b.device.SupportsOp(t) {
		return t.errorf(nil, "%s does not support this op on these types and shapes", b.Name())
	}
	if err := lock(&s.current.mu); err != nil {
		return during(err, t.operand())
	}
	defer s.current.mu.Unlock()
	s.assigned = append(s.assigned, assignment{t, b})
	return nil
}

// NumGraphSplits returns the number of parts into which the last graph was split. C:
// ggml_backend_sched_get_n_splits.
func (s *Scheduler) NumGraphSplits() int {
	s = made(s)
	if s.h.acquire() != nil {
		return 0
	}
	defer s.h.release()
	if lock(&s.current.mu) != nil {
		return 0
	}
	defer s.current.mu.Unlock()
	return int(C.ggml_backend_sched_get_n_splits(s.s))
}

// BufferSize returns the bytes of memory for a backend; 0 if it is not one of the scheduler's. C:
// ggml_backend_sched_get_buffer_size.
func (s *Scheduler) BufferSize(b *Backend) int64 {
	s = made(s)
	if !slices.Contains(s.backends, b) || s.h.acquire() != nil {
		return 0
	}
	defer s.h.release()
	if lock(&s.current.mu) != nil {
		return 0
	}
	defer s.current.mu.Unlock()
	return int64(C.ggml_backend_sched_get_buffer_size(s.s, b.b))
}

// Backends returns the backends given to [NewScheduler]. C: ggml_backend_sched_get_n_backends,
// ggml_backend_sched_get_backend.
func (s *Scheduler) Backends() []*Backend {
	s = made(s)
	return slices.Clone(s.backends)
}

// NumCopies returns the number of copies of a graph's inputs; with more than one, a copy can be
// written while another is computed with. It is 1 without the option Parallel. C:
// ggml_backend_sched_get_n_copies.
func (s *Scheduler) NumCopies() int {
	s = made(s)
	if s.h.acquire() != nil {
		return 0
	}
	defer s.h.release()
	return int(C.ggml_backend_sched_get_n_copies(s.s))
}

// BufferType returns the memory in which the scheduler stores the results of a backend. C:
// ggml_backend_sched_get_buffer_type.
func (s *Scheduler) BufferType(b *Backend) (*BufferType, bool) {
	s = made(s)
	if !slices.Contains(s.backends, b) || s.h.acquire() != nil {
		return nil, false
	}
	defer s.h.release()
	return &BufferType{C.ggml_backend_sched_get_buffer_type(s.s, b.b)}, true
}
