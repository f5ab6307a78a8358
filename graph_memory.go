package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"
)

// graphMemory is the memory that an allocator gave to the tensors of a graph. It
// keeps their contexts, and takes the memory back when it is freed: the next graph
// gets it. Whoever uses the tensors holds a reference, and free waits for all.
type graphMemory struct {
	allocator *handle
	tensors   C.goggml_graph_memory
	contexts  []*handle

	mu      sync.Mutex
	changed sync.Cond
	state   graphMemoryState
	users   int
	pending []weak.Pointer[Backend] // that may use the tensors until they are synchronized
}

type graphMemoryState int

const (
	memoryInTransition graphMemoryState = iota // it is being given or taken back
	memoryAllocated
	memoryFreed
)

// A transitionError is the attempt to use memory that is in transition.
type transitionError struct{ memory *graphMemory }

func (*transitionError) Error() string {
	return "ggml: the memory of a graph is being allocated or freed"
}

// newGraphMemory lists what the allocator is about to give memory to, and makes
// those who use the contexts of that wait until setState(memoryAllocated). The
// graph is retained.
func newGraphMemory(g *Graph, allocator *handle, owner any) (*graphMemory, error) {
	m := &graphMemory{allocator: allocator}
	m.changed.L = &m.mu
	m.tensors = C.goggml_graph_memory_new(g.g, unsafe.SliceData(g.leaves), C.int(len(g.leaves)))
	if m.tensors.tensors == nil {
		return nil, fmt.Errorf("ggml: a list of a graph's tensors: %w", ErrOutOfMemory)
	}
	for _, c := range g.ctx.withDependencies() {
		c.mu.Lock()
		concerned := bool(C.goggml_graph_memory_in(&m.tensors, c.arena))
		c.mu.Unlock()
		if !concerned {
			continue
		}
		if err := c.h.acquire(); err != nil {
			m.free()
			return nil, err
		}
		m.contexts = append(m.contexts, c.h)
		c.addAllocation(m, owner)
	}
	return m, nil
}

// acquire keeps the memory until release. Once it is freed there is nothing to
// keep: the tensors are unallocated then.
func (m *graphMemory) acquire() (acquired bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.state {
	case memoryFreed:
		return false, nil
	case memoryInTransition:
		return false, &transitionError{m}
	}
	if err := m.allocator.acquire(); err != nil {
		return false, err
	}
	m.users++
	return true, nil
}

func (m *graphMemory) release() {
	m.mu.Lock()
	m.users--
	m.changed.Broadcast()
	m.mu.Unlock()
	m.allocator.release() // may free the memory
}

func (m *graphMemory) setState(s graphMemoryState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
	m.changed.Broadcast()
}

// waitStable waits while the memory is in transition.
func (m *graphMemory) waitStable() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.state == memoryInTransition {
		m.changed.Wait()
	}
}

func (m *graphMemory) freed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state == memoryFreed
}

// addPending notes that a backend uses the tensors after the present call.
func (m *graphMemory) addPending(b *Backend) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := weak.Make(b); !slices.Contains(m.pending, p) {
		m.pending = append(m.pending, p)
	}
}

// waitPending waits for the pending backends. It returns with the memory locked.
func (m *graphMemory) waitPending() {
	m.mu.Lock()
	for len(m.pending) > 0 {
		pending := m.pending
		m.pending = nil
		m.mu.Unlock()
		for _, p := range pending {
			if b := p.Value(); b != nil {
				b.Synchronize() // a closed one is, too
			}
		}
		m.mu.Lock()
	}
}

// free waits for all users, then makes the tensors unallocated. New users are
// admitted while it waits: a user may acquire the memory again recursively, and to
// keep it waiting would be a deadlock.
func (m *graphMemory) free() {
	m.waitPending()
	for m.users > 0 {
		m.changed.Wait()
		m.mu.Unlock()
		m.waitPending() // for what the last users began
	}
	m.state = memoryInTransition
	m.mu.Unlock()
	C.goggml_graph_memory_free(&m.tensors)
	m.setState(memoryFreed)
	for _, h := range m.contexts {
		h.release()
	}
	m.contexts = nil
}

// allocatorState is shared by all allocators of graphs: the memory of the graph that is allocated
// now, and the plan that it follows.
type allocatorState struct {
	mu     sync.Mutex
	memory *graphMemory
	graph  weak.Pointer[Graph]
	nodes  graphVersion // of the graph

	plan    C.uint64_t // the signature of the graph whose plan is in use, see goggml_graph_signature; 0 for none
	next    C.uint64_t // of the graph that is being allocated
	fault   error      // why the allocator can be used no more
	refusal error      // the failure of an allocation that leaves the allocator usable
	limit   int        // of tensors in a graph; 0 for none

	measure func() []memoryUse // what the allocator holds
	uses    atomic.Pointer[[]memoryUse]
}

// measured returns the memory that the allocator held after the last change.
func (s *allocatorState) measured() []memoryUse {
	if uses := s.uses.Load(); uses != nil {
		return *uses
	}
	return nil
}

// free makes the graph unallocated.
func (s *allocatorState) free() {
	if s.memory != nil {
		s.memory.free()
	}
	s.memory, s.graph = nil, weak.Pointer[Graph]{}
}

// unchanged demands that the graph, which is locked, has the nodes that were
// allocated.
func (s *allocatorState) unchanged(g *Graph) error {
	if g.version() == s.nodes {
		return nil
	}
	return g.errorf(ErrNotAllocated, "the graph has changed since the scheduler allocated it; call Allocate again")
}

// purpose is the purpose of an allocation.
type purpose bool

const (
	reserveOnly purpose = false
	forCompute  purpose = true
)

// allocate replaces the memory by the graph's, which f allocates.
func (s *allocatorState) allocate(g *Graph, p purpose, devices []*Device, allocator *handle, owner any, f func() C.goggml_int) error {
	// A bad graph leaves the one before in place.
	release, err := g.check(devices, checkBuilt)
	if err != nil {
		return err
	}
	release()
	if err := lock(&s.mu); err != nil {
		return during(err, g.operand())
	}
	defer s.mu.Unlock()
	if calling().waitsForMemory(s.memory) {
		return during(busyError(), g.operand())
	}
	if s.fault != nil {
		return g.errorf(ErrBroken, "the allocator is broken by an earlier failure: %v; make another one", s.fault)
	}
	s.free()
	if release, err = g.check(devices, checkBuilt); err != nil {
		return err
	}
	defer release()
	if s.limit > 0 && int(C.goggml_graph_count_tensors(g.g, C.size_t(s.limit))) > s.limit {
		return g.errorf(nil, "with its leaves it has more than %d tensors; make the scheduler with a larger GraphSize", s.limit)
	}
	m, err := newGraphMemory(g, allocator, owner)
	if err != nil {
		return err
	}
	s.next = C.goggml_graph_signature(g.g, unsafe.SliceData(g.leaves), C.int(len(g.leaves)))
	r := f()
	if s.measure != nil { // an optimizer measures itself
		uses := s.measure()
		s.uses.Store(&uses)
	}
	err = guardError(r.error)
	switch {
	case s.refusal != nil:
		err = g.errorf(s.refusal, "%v", s.refusal)
		s.refusal = nil
	case err == errMemory:
		s.fault = err
		err = g.errorf(ErrOutOfMemory, "%v", err)
	case err != nil:
		s.fault = err
		err = g.errorf(ErrBroken, "%v", err)
	case r.value == 0:
		var needs []memoryUse
		if o, known := owner.(interface{ needs(g *Graph) []memoryUse }); known {
			needs = o.needs(g)
		}
		err = g.errorf(ErrOutOfMemory, "out of memory%s; use a smaller batch or context", shortage(needs...))
	}
	for _, u := range s.measured() {
		if failure := deviceErr(u.device); failure != nil {
			err = g.errorf(failure, "%v", failure)
		}
	}
	if err != nil || p == reserveOnly {
		m.free()
		return err
	}
	s.memory, s.graph, s.nodes = m, weak.Make(g), g.version()
	m.setState(memoryAllocated)
	return nil
}

// replan reserves memory unless the last plan suits the graph. ggml would take its
// last plan for any graph with as many nodes, and checks only for some of the
// tensors whether it fits.
func (s *allocatorState) replan(reserve func() C.goggml_int) C.goggml_int {
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

func (s *allocatorState) refuse(err error) C.goggml_int {
	s.refusal = err
	return C.goggml_int{}
}
