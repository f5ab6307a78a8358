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

// graphMemory is the memory that an allocator gave to the tensors of a graph. It retains their
// contexts, and makes the tensors unallocated before the memory is freed or given to the next
// graph. Users of the tensors hold references, and free waits for all of them.
type graphMemory struct {
	allocator *handle
	tensors   C.goggml_graph_memory
	contexts  []*handle

	mu      sync.Mutex
	changed sync.Cond
	state   graphMemoryState
	users   int
	pending []weak.Pointer[Backend] // backends that may use the tensors until synchronized
}

type graphMemoryState int

const (
	memoryInTransition graphMemoryState = iota // being given to tensors or taken back
	memoryAllocated
	memoryFreed
)

// A transitionError reports the use of memory that is in transition.
type transitionError struct{ memory *graphMemory }

func (*transitionError) Error() string {
	return "ggml: the memory of a graph is being allocated or freed"
}

// newGraphMemory lists the tensors that the allocator is about to allocate. Other users of their
// contexts wait until setState(memoryAllocated). The caller retains the graph.
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

// acquire retains the memory until release. If the memory is freed, it acquires nothing: the
// tensors are then unallocated.
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
	m.allocator.release() // may free the allocator
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

// addPending records that a backend uses the tensors after the current call.
func (m *graphMemory) addPending(b *Backend) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := weak.Make(b); !slices.Contains(m.pending, p) {
		m.pending = append(m.pending, p)
	}
}

// waitPending waits for the pending backends. It returns with m locked.
func (m *graphMemory) waitPending() {
	m.mu.Lock()
	for len(m.pending) > 0 {
		pending := m.pending
		m.pending = nil
		m.mu.Unlock()
		for _, p := range pending {
			if b := p.Value(); b != nil {
				b.Synchronize() // also waits for a closed backend
			}
		}
		m.mu.Lock()
	}
}

// free waits for all users, then makes the tensors unallocated. New users are admitted meanwhile: a
// user may acquire the memory recursively, and blocking it would be a deadlock.
func (m *graphMemory) free() {
	m.waitPending()
	for m.users > 0 {
		m.changed.Wait()
		m.mu.Unlock()
		m.waitPending() // for work begun by the last users
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

// allocatorState is the state that all allocators of graphs share: the memory of the currently
// allocated graph, and its plan.
type allocatorState struct {
	mu     sync.Mutex
	memory *graphMemory
	graph  weak.Pointer[Graph]
	nodes  graphVersion // nodes of the allocated graph

	plan    C.uint64_t // signature of the graph with the current plan, see goggml_graph_signature; 0 for none
	next    C.uint64_t // signature of the graph being allocated
	fault   error      // why the allocator is unusable
	refusal error      // failure of an allocation that leaves the allocator usable
	limit   int        // maximum number of tensors in a graph; 0 means no limit

	measure func() []memoryUse // returns the memory that the allocator holds
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

// unchanged requires that the locked graph still has the nodes that were allocated.
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

// allocate makes the tensors of the last graph unallocated, and allocates the graph by f.
func (s *allocatorState) allocate(g *Graph, p purpose, devices []*Device, allocator *handle, owner any, f func() C.goggml_int) error {
	// A bad graph leaves the last graph allocated.
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
	if s.measure != nil { // an optimizer measures its memory itself
		uses := s.measure()
		s.uses.Store(&uses)
	}
	if err := s.failure(g, owner, r); err != nil || p == reserveOnly {
		m.free()
		return err
	}
	s.memory, s.graph, s.nodes = m, weak.Make(g), g.version()
	m.setState(memoryAllocated)
	return nil
}

// failure returns the error of an allocation for g that returned r. It notes a fault that breaks the allocator.
func (s *allocatorState) failure(g *Graph, owner any, r C.goggml_int) error {
	err := guardError(r.error)
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
	return err
}

// replan reserves memory unless the last plan suits the graph. ggml would apply its last plan to
// any graph with the same number of nodes, and checks only some of the tensors for fit.
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
