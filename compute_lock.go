package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A computation is one run of a graph on backends. They and the graph are locked
// meanwhile, so that the functions of Go that it calls cannot use them.
type computation struct {
	backends []*Backend
	locks    []*sync.Mutex // of the scheduler or the optimizer; graph and backends have their own
	calls    bool          // it calls functions other than custom ops

	graph *Graph
	then  *Graph       // that is computed after it, or nil
	outer *computation // in a function of which this one began
	id    uintptr      // by which C knows it, while it may call functions

	nodes []customNode
	err   atomic.Pointer[customFailure] // the first
}

// computations are those that call functions.
var computations callbackTable[computation]

// inFunctions counts the functions that run now, so that nobody else has to ask.
var inFunctions atomic.Int64

// enter notes that the thread runs a function of the computation, until leave.
// The slot is the thread's own; C restores it.
func (c *computation) enter(slot *C.uintptr_t) (leave func()) {
	inFunctions.Add(1)
	if c != nil {
		*slot = C.uintptr_t(c.id)
	}
	return func() { inFunctions.Add(-1) }
}

// calling is the computation whose function calls, on this thread, or nil: a
// callback of C keeps its goroutine on the thread.
func calling() *computation {
	if inFunctions.Load() == 0 {
		return nil
	}
	return computations.find(uintptr(C.goggml_calling()))
}

// waitsFor reports whether the end of the computation, or of one around it,
// comes before m is unlocked.
func (c *computation) waitsFor(m *sync.Mutex) bool {
	for ; c != nil; c = c.outer {
		if m == &c.graph.busy || slices.Contains(c.locks, m) {
			return true
		}
		for _, b := range c.backends {
			if m == &b.mu || b.pool.pool != nil && m == &b.pool.pool.mu {
				return true
			}
		}
	}
	return false
}

// waitsForMemory is waitsFor for the end of the use of a graph's memory.
func (c *computation) waitsForMemory(m *graphMemory) bool {
	for ; c != nil && m != nil; c = c.outer {
		for _, g := range []*Graph{c.graph, c.then} {
			if g != nil && slices.ContainsFunc(g.ctx.withDependencies(), func(x *Context) bool { return x.uses(m) }) {
				return true
			}
		}
	}
	return false
}

// lock locks m. It returns an error if the caller runs inside the computation that holds m, which would deadlock.
func lock(m *sync.Mutex) error {
	if calling().waitsFor(m) {
		return busyError()
	}
	m.Lock()
	return nil
}

// enter retains and locks an object until leave.
func enter(h *handle, m *sync.Mutex) (leave func(), err error) {
	if err := h.acquire(); err != nil {
		return nil, err
	}
	if err := lock(m); err != nil {
		h.release()
		return nil, err
	}
	return func() {
		m.Unlock()
		h.release()
	}, nil
}

func busyError() error { return &useError{call: outerCall(), err: ErrBusy} }
