package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"
)

// A lease is the memory that an allocator gave to the tensors of a graph. It
// keeps their contexts, and takes the memory back when it ends: the next graph
// gets it. Whoever uses the tensors enters the lease, and its end waits until
// all have left.
type lease struct {
	allocator *handle
	tensors   C.goggml_lease
	contexts  []*handle

	mu      sync.Mutex
	changed sync.Cond
	state   leaseState
	users   int
	debtors []weak.Pointer[Backend] // that may use the tensors until they are synchronized
}

type leaseState int

const (
	leaseChanges leaseState = iota // memory is being given or taken back
	leaseRuns
	leaseOver
)

// leaseChanging is the attempt to enter a lease that changes.
type leaseChanging struct{ lease *lease }

func (*leaseChanging) Error() string { return "ggml: the memory of a graph is changing hands" }

// openLease lists what the allocator is about to give memory to, and makes
// the contexts of that wait until set(leaseRuns). The graph is pinned.
func openLease(g *Graph, allocator *handle, owner any) (*lease, error) {
	l := &lease{allocator: allocator}
	l.changed.L = &l.mu
	l.tensors = C.goggml_lease_open(g.g, unsafe.SliceData(g.leaves), C.int(len(g.leaves)))
	if l.tensors.tensors == nil {
		return nil, fmt.Errorf("ggml: a list of a graph's tensors: %w", ErrOutOfMemory)
	}
	for _, c := range g.ctx.closure() {
		c.mu.Lock()
		concerned := bool(C.goggml_lease_concerns(&l.tensors, c.arena))
		c.mu.Unlock()
		if !concerned {
			continue
		}
		if err := c.h.acquire(); err != nil {
			l.end()
			return nil, err
		}
		l.contexts = append(l.contexts, c.h)
		c.rent(l, owner)
	}
	return l, nil
}

// enter keeps the lease from ending until leave. It does nothing once the
// lease is over: the tensors are unallocated then.
func (l *lease) enter() (entered bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case leaseOver:
		return false, nil
	case leaseChanges:
		return false, &leaseChanging{l}
	}
	if err := l.allocator.acquire(); err != nil {
		return false, err
	}
	l.users++
	return true, nil
}

func (l *lease) leave() {
	l.mu.Lock()
	l.users--
	l.changed.Broadcast()
	l.mu.Unlock()
	l.allocator.release() // may end the lease
}

func (l *lease) set(s leaseState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	l.changed.Broadcast()
}

// settle waits while the lease changes.
func (l *lease) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.state == leaseChanges {
		l.changed.Wait()
	}
}

func (l *lease) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == leaseOver
}

// owe notes that a backend works with the tensors after the present call.
func (l *lease) owe(b *Backend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := weak.Make(b); !slices.Contains(l.debtors, p) {
		l.debtors = append(l.debtors, p)
	}
}

// collect waits for the debtors. It returns with the lease locked.
func (l *lease) collect() {
	l.mu.Lock()
	for len(l.debtors) > 0 {
		debtors := l.debtors
		l.debtors = nil
		l.mu.Unlock()
		for _, p := range debtors {
			if b := p.Value(); b != nil {
				b.Synchronize() // a closed one is, too
			}
		}
		l.mu.Lock()
	}
}

// end takes the memory back once nobody uses it. Until then it lets others in:
// a use may be inside of another one, which would wait for it in vain.
func (l *lease) end() {
	l.collect()
	for l.users > 0 {
		l.changed.Wait()
		l.mu.Unlock()
		l.collect() // what the last ones owe
	}
	l.state = leaseChanges
	l.mu.Unlock()
	C.goggml_lease_end(&l.tensors)
	l.set(leaseOver)
	for _, h := range l.contexts {
		h.release()
	}
	l.contexts = nil
}

// leaseHolder holds the lease of the graph that is allocated at present.
type leaseHolder struct {
	mu    sync.Mutex
	lease *lease
	graph weak.Pointer[Graph]
	nodes graphVersion // of the graph

	plan    C.uint64_t // of the memory at present, see goggml_graph_plan; 0 for none
	next    C.uint64_t // of the graph that is being allocated
	fault   error      // why the allocator can be used no more
	refusal error      // the failure of an allocation that leaves the allocator usable
	limit   int        // of tensors in a graph; 0 for none

	measure func() []memoryUse // what the allocator holds
	uses    atomic.Pointer[[]memoryUse]
}

// measured is what the allocator held after the last change.
func (s *leaseHolder) measured() []memoryUse {
	if uses := s.uses.Load(); uses != nil {
		return *uses
	}
	return nil
}

func (s *leaseHolder) end() {
	if s.lease != nil {
		s.lease.end()
	}
	s.lease, s.graph = nil, weak.Pointer[Graph]{}
}

// changed tells that the graph, which is locked, has other nodes than those that
// were allocated.
func (s *leaseHolder) changed(op string, g *Graph) error {
	if g.version() == s.nodes {
		return nil
	}
	return g.errorf(op, ErrNotAllocated, "the graph has changed since the scheduler allocated it; call Alloc again")
}

// purpose is what an allocation is for.
type purpose bool

const (
	reserveOnly purpose = false
	forCompute  purpose = true
)

// allocate replaces the lease by one of the graph, whose memory f allots.
func (s *leaseHolder) allocate(g *Graph, p purpose, devices []*Device, allocator *handle, owner any, f func() C.goggml_int) error {
	const op = "alloc_graph"
	// A bad graph leaves the one before in place.
	unpin, err := g.check(op, devices, checkBuilt)
	if err != nil {
		return err
	}
	unpin()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return g.errorf(op, ErrBroken, "the allocator is broken by an earlier failure: %v; make another one", s.fault)
	}
	s.end()
	if unpin, err = g.check(op, devices, checkBuilt); err != nil {
		return err
	}
	defer unpin()
	if s.limit > 0 && int(C.goggml_graph_tensors(g.g, C.size_t(s.limit))) > s.limit {
		return g.errorf(op, nil, "with its leaves it has more than %d tensors; make the scheduler with a larger GraphSize", s.limit)
	}
	l, err := openLease(g, allocator, owner)
	if err != nil {
		return err
	}
	s.next = C.goggml_graph_plan(g.g, unsafe.SliceData(g.leaves), C.int(len(g.leaves)))
	r := f()
	if s.measure != nil { // an optimizer measures itself
		uses := s.measure()
		s.uses.Store(&uses)
	}
	err = guardError(r.error)
	switch {
	case s.refusal != nil:
		err = g.errorf(op, s.refusal, "%v", s.refusal)
		s.refusal = nil
	case err != nil:
		s.fault = err
		err = g.errorf(op, ErrBroken, "%v", err)
	case r.value == 0:
		err = g.errorf(op, ErrOutOfMemory, "out of memory; use a smaller batch or context")
	}
	for _, u := range s.measured() {
		if gone := lost(u.device); gone != nil {
			err = g.errorf(op, gone, "%v", gone)
		}
	}
	if err != nil || p == reserveOnly {
		l.end()
		return err
	}
	s.lease, s.graph, s.nodes = l, weak.Make(g), g.version()
	l.set(leaseRuns)
	return nil
}

// replan reserves memory unless the last plan suits the graph. The library would
// take its last one for any graph with as many nodes, and looks only at some of
// the tensors whether it fits.
func (s *leaseHolder) replan(reserve func() C.goggml_int) C.goggml_int {
	if s.plan != 0 && s.plan == s.next {
		return C.goggml_int{value: 1}
	}
	s.plan = 0
	r := reserve()
	if r.error == nil && r.value != 0 {
		s.plan = s.next
	}
	return r
}

func (s *leaseHolder) refuse(err error) C.goggml_int {
	s.refusal = err
	return C.goggml_int{}
}

// A GraphAllocator gives memory to the tensors of a graph, and reuses that of
// results which are no longer needed. Allocating another graph, or Close,
// makes the tensors of the last one unallocated. It is safe for concurrent
// use. C: ggml_gallocr_t.
type GraphAllocator struct {
	h       *handle
	a       C.ggml_gallocr_t
	types   []*BufferType
	current *leaseHolder
}

// NewGraphAllocator makes an allocator of the buffer type. Of several types all
// tensors go to the first, unless [GraphAllocator.ReserveIn] says otherwise.
// C: ggml_gallocr_new, ggml_gallocr_new_n.
func NewGraphAllocator(types ...*BufferType) (*GraphAllocator, error) {
	if len(types) == 0 || slices.Contains(types, nil) {
		return nil, fmt.Errorf("ggml: graph allocator: a buffer type is nil, or there is none")
	}
	list := make([]C.ggml_backend_buffer_type_t, len(types))
	for i, bt := range types {
		if bt.packed() {
			return nil, fmt.Errorf("ggml: graph allocator: %s holds matrices that are packed to be multiplied with, no results", bt.Name())
		}
		list[i] = bt.b
	}
	r := C.goggml_gallocr_new(&list[0], C.int(len(list)))
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: graph allocator: %w", err)
	}
	a := &GraphAllocator{a: C.ggml_gallocr_t(r.value), types: types, current: &leaseHolder{}}
	ca, current := a.a, a.current
	current.measure = func() []memoryUse {
		var uses []memoryUse
		for i, bt := range types {
			uses = append(uses, memoryUse{deviceOf(bt.b), UsageCompute, int64(C.ggml_gallocr_get_buffer_size(ca, C.int(i)))})
		}
		return uses
	}
	h, err := newHandle("graph allocator", func() {
		current.end()
		C.ggml_gallocr_free(ca)
	})
	if err != nil {
		return nil, err
	}
	a.h = h
	memory.track(h, current.measured)
	closeOnCollect(a, h)
	return a, nil
}

// Close frees the memory. It never fails. C: ggml_gallocr_free.
func (a *GraphAllocator) Close() error {
	if a != nil {
		a.h.close()
	}
	return nil
}

// Reserve makes room for a graph without allocating it: do so for the largest
// one, and no later Alloc takes more memory. C: ggml_gallocr_reserve.
func (a *GraphAllocator) Reserve(g *Graph) error {
	return a.with(g, reserveOnly, func() C.goggml_int {
		a.current.plan = 0 // which may be one with a placement
		return a.reserve(g)
	})
}

// Alloc gives memory to the graph's tensors that have none. With several buffer
// types a graph like it has been reserved. C: ggml_gallocr_alloc_graph.
func (a *GraphAllocator) Alloc(g *Graph) error {
	return a.with(g, forCompute, func() C.goggml_int {
		if len(a.types) > 1 && a.current.plan != a.current.next {
			return a.current.refuse(errNotReserved)
		}
		if r := a.reserve(g); r.error != nil || r.value == 0 {
			return r
		}
		return C.goggml_gallocr_alloc(a.a, g.g)
	})
}

var errNotReserved = errors.New("the graph is not like the one that was reserved; call Reserve or ReserveIn with it first")

func (a *GraphAllocator) reserve(g *Graph) C.goggml_int {
	return a.current.replan(func() C.goggml_int { return C.goggml_gallocr_reserve(a.a, g.g) })
}

func (a *GraphAllocator) with(g *Graph, p purpose, f func() C.goggml_int) error {
	if err := a.h.acquire(); err != nil {
		return during(err, "alloc_graph", g.operand())
	}
	defer a.h.release()
	return a.current.allocate(g, p, nil, a.h, a, f)
}

// Size is the size of the memory in bytes, of all buffer types.
// C: ggml_gallocr_get_buffer_size.
func (a *GraphAllocator) Size() int64 {
	var n int64
	for _, size := range a.Sizes() {
		n += size
	}
	return n
}

// A Scheduler computes a graph on several backends: each op where its weights
// are and where it is supported, with copies in between. It allocates the
// graph like a [GraphAllocator]. It is safe for concurrent use; computations
// wait for each other. C: ggml_backend_sched_t.
type Scheduler struct {
	h        *handle
	s        C.ggml_backend_sched_t
	backends []*Backend
	options  SchedulerOptions
	current  *leaseHolder
	sources  *schedSources

	// Guarded by current.mu.
	assigned []assignment
	split    weak.Pointer[Graph] // the last graph whose nodes were put on backends
	nodes    graphVersion        // of that

	callbacks *schedCallbacks // kept here, as the table of callbacks does not
}

// SchedulerOptions are the settings of a scheduler; the zero value is usual.
type SchedulerOptions struct {
	GraphSize  int  // largest number of nodes and leaves, 0 for 8192
	Parallel   bool // overlap computes of several copies of the inputs
	OffloadOps bool // let a GPU compute with weights in system memory
}

// NewScheduler makes a scheduler; backends that come first are preferred, and
// the last one is a CPU backend. C: ggml_backend_sched_new.
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
	cs, err := o.newSched(list)
	if err != nil {
		return nil, fmt.Errorf("ggml: scheduler: %w", err)
	}
	s := &Scheduler{s: cs, options: o, backends: backends, current: &leaseHolder{limit: o.GraphSize}, callbacks: &schedCallbacks{}, sources: &schedSources{}}
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
		current.end()
		C.goggml_sources_free(&sources.c)
		C.ggml_backend_sched_free(cs)
		schedCallbackTable.remove(id)
	}, parents...)
	if err != nil {
		return nil, err
	}
	s.h = h
	memory.track(h, current.measured)
	closeOnCollect(s, h)
	return s, nil
}

// newSched makes room for twice the largest graph: its hash table then never
// overflows, and is faster.
func (o *SchedulerOptions) newSched(backends []C.ggml_backend_t) (C.ggml_backend_sched_t, error) {
	r := C.goggml_sched_new(&backends[0], nil, C.int(len(backends)), C.size_t(2*o.GraphSize), C.bool(o.Parallel), C.bool(o.OffloadOps))
	return C.ggml_backend_sched_t(r.value), guardError(r.error)
}

const maxGraph = 1 << 28 // nodes and leaves of a scheduler's

func checkBackends(backends []*Backend) error {
	if len(backends) == 0 {
		return fmt.Errorf("ggml: scheduler: there is no backend; the last one must be a CPU backend")
	}
	var names []string
	for _, b := range backends {
		if b == nil {
			return fmt.Errorf("ggml: scheduler: a backend is nil")
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

// Reserve makes room for a graph without allocating it: do so for the largest
// one, and no later Alloc takes more memory. C: ggml_backend_sched_reserve.
func (s *Scheduler) Reserve(g *Graph) error {
	return s.allocate(g, reserveOnly, func() C.goggml_int { return s.reserve(g) })
}

// Alloc gives memory to the graph's tensors that have none, in place of the
// graph before. C: ggml_backend_sched_reset, ggml_backend_sched_alloc_graph.
func (s *Scheduler) Alloc(g *Graph) error {
	return s.allocate(g, forCompute, func() C.goggml_int {
		before := s.current.measure()
		if r := s.reserve(g); r.error != nil || r.value == 0 {
			return r
		}
		s.callbacks.reserved(before, s.current.measure())
		return s.sources.keep(g, func() C.goggml_int { return C.goggml_sched_alloc(s.s, g.g) })
	})
}

// reserve makes room, and keeps what assign has set.
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
		return during(err, "alloc_graph", g.operand())
	}
	defer s.h.release()
	return s.current.allocate(g, p, s.devices(), s.h, s, func() C.goggml_int {
		if e := C.goggml_sched_reset(s.s); e != nil {
			return C.goggml_int{error: e}
		}
		if e := s.assign(s.s, g); e != nil {
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

// assign puts tensors on the backends where they have to be.
func (s *Scheduler) assign(sched C.ggml_backend_sched_t, g *Graph) *C.char {
	cpu := s.backends[len(s.backends)-1]
	if e := C.goggml_sched_place_leaves(sched, g.g, unsafe.SliceData(g.leaves), C.int(len(g.leaves)), cpu.b); e != nil {
		return e
	}
	contexts := g.ctx.closure()
	s.assigned = slices.DeleteFunc(s.assigned, func(a assignment) bool { return a.tensor.ctx.h.closed() })
	for _, a := range s.assigned {
		if !containsContext(contexts, a.tensor.ctx) {
			continue // of another graph
		}
		if e := C.goggml_sched_set_tensor_backend(sched, a.tensor.t, a.backend.b); e != nil {
			return e
		}
	}
	return s.keepOnCPU(sched, g)
}

func (s *Scheduler) devices() []*Device {
	var devices []*Device
	for _, b := range s.backends {
		devices = append(devices, b.device)
	}
	return devices
}

// Reset makes the tensors of the allocated graph unallocated, and forgets
// SetTensorBackend.
// C: ggml_backend_sched_reset.
func (s *Scheduler) Reset() error {
	if err := s.h.acquire(); err != nil {
		return err
	}
	defer s.h.release()
	s.current.mu.Lock()
	defer s.current.mu.Unlock()
	s.current.end()
	s.assigned, s.split = nil, weak.Pointer[Graph]{}
	return guardError(C.goggml_sched_reset(s.s))
}

// Compute runs the graph, which Alloc has allocated, and waits for the end. It
// is cancelled like [Backend.Compute]. C: ggml_backend_sched_graph_compute.
func (s *Scheduler) Compute(ctx context.Context, g *Graph) error {
	return s.compute(ctx, "sched_graph_compute", g, nil)
}

// compute runs the graph; prepare (may be nil) changes the callbacks before that.
func (s *Scheduler) compute(ctx context.Context, op string, g *Graph, prepare func(*schedCallbacks) (restore func())) error {
	return s.with(op, g, func() error {
		unpin, err := g.check(op, nil, checkReady)
		if err != nil {
			return err
		}
		defer unpin()
		if err := s.current.changed(op, g); err != nil {
			return err
		}
		if prepare != nil {
			defer prepare(s.callbacks)()
		}
		return s.eval(g, func() error {
			return g.compute(ctx, op, s.backends, func() C.goggml_int {
				return s.sources.with(func() C.goggml_int {
					return runOn(s.backends, C.goggml_sched_compute, unsafe.Pointer(s.s), unsafe.Pointer(g.g))
				})
			})
		})
	})
}

// with runs f alone on the scheduler; the graph is the one that it allocated.
func (s *Scheduler) with(op string, g *Graph, f func() error) error {
	if err := s.h.acquire(); err != nil {
		return during(err, op, g.operand())
	}
	defer s.h.release()
	s.current.mu.Lock()
	defer s.current.mu.Unlock()
	if g == nil {
		return g.errorf(op, nil, "the graph is nil")
	}
	if s.current.graph.Value() != g {
		return g.errorf(op, ErrNotAllocated, "the graph is not the one that the scheduler allocated last; call Alloc first")
	}
	return f()
}

// schedSources are the copies on other backends that a scheduler puts in the
// place of operands when it splits a graph. The library leaves them there, also
// when the graph has become another scheduler's; here they are in place only
// while the scheduler computes.
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
func (s *schedSources) with(f func() C.goggml_int) C.goggml_int {
	C.goggml_sources_set(&s.c, true)
	defer C.goggml_sources_set(&s.c, false)
	return f()
}

// An assignment is a tensor that the caller wants on a backend.
type assignment struct {
	tensor  *Tensor
	backend *Backend
}

// SetTensorBackend makes the scheduler compute a tensor on one of its
// backends, which supports its op, from the next Alloc until Reset. Of backends
// that compute in the same memory, as BLAS and the CPU do, the first one gets it.
// C: ggml_backend_sched_set_tensor_backend.
func (s *Scheduler) SetTensorBackend(t *Tensor, b *Backend) error {
	if err := t.missing("sched_set_tensor_backend"); err != nil {
		return err
	}
	if !slices.Contains(s.backends, b) {
		return t.errorf("sched_set_tensor_backend", nil, "the backend is not one of the scheduler's")
	}
	if t.Op() != "none" && !b.device.SupportsOp(t) {
		return t.errorf("sched_set_tensor_backend", nil, "%s does not support this op on these types and shapes", b.Name())
	}
	if err := s.h.acquire(); err != nil {
		return err
	}
	defer s.h.release()
	s.current.mu.Lock()
	defer s.current.mu.Unlock()
	s.assigned = append(s.assigned, assignment{t, b})
	return nil
}

// NumSplits counts the parts into which the last graph was cut.
// C: ggml_backend_sched_get_n_splits.
func (s *Scheduler) NumSplits() int {
	if s.h.acquire() != nil {
		return 0
	}
	defer s.h.release()
	s.current.mu.Lock()
	defer s.current.mu.Unlock()
	return int(C.ggml_backend_sched_get_n_splits(s.s))
}

// BufferSize is the size in bytes of the memory for a backend; 0 when it is
// not one of the scheduler's. C: ggml_backend_sched_get_buffer_size.
func (s *Scheduler) BufferSize(b *Backend) int64 {
	if !slices.Contains(s.backends, b) || s.h.acquire() != nil {
		return 0
	}
	defer s.h.release()
	s.current.mu.Lock()
	defer s.current.mu.Unlock()
	return int64(C.ggml_backend_sched_get_buffer_size(s.s, b.b))
}
