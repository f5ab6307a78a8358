package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A computation is one run of a graph on backends. Graph and backends are locked meanwhile, so that
// Go functions called by the computation cannot use them.
type computation struct {
	backends []*Backend
	locks    []*sync.Mutex // locks of the scheduler or the optimizer; graph and backends have their own
	calls    bool          // calls Go functions other than custom ops

	graph *Graph
	then  *Graph       // graph computed after it, or nil
	outer *computation // the computation whose function started this one, or nil
	id    uintptr      // number by which C finds it while it may call functions

	nodes []customNode
	err   atomic.Pointer[customFailure] // the first error
}

// computations lists the running computations that call functions.
var computations callbackTable[computation]

// inFunctions counts the running functions; at 0 the checks below can be skipped.
var inFunctions atomic.Int64

// enter records that the thread runs a function of the computation, until leave. The slot belongs
// to the thread; C restores it.
func (c *computation) enter(slot *C.uintptr_t) (leave func()) {
	inFunctions.Add(1)
	if c != nil {
		*slot = C.uintptr_t(c.id)
	}
	return func() { inFunctions.Add(-1) }
}

// calling returns the computation whose function runs on this thread, or nil. A callback from C
// keeps its goroutine on the thread.
func calling() *computation {
	if inFunctions.Load() == 0 {
		return nil
	}
	return computations.find(uintptr(C.goggml_calling()))
}

// waitsFor reports whether m stays locked until the computation, or one around it, ends.
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

// waitsForMemory reports whether a graph's memory stays in use until the computation, or one around
// it, ends.
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

// lock locks m. It returns an error if the caller runs inside the computation that holds m: locking
// would deadlock.
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
