package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// schedCallbacks are the Go functions that a scheduler calls. Its fields are
// guarded by the lock of the scheduler, which a call holds as it runs them.
type schedCallbacks struct {
	id      uintptr
	want    func(*Tensor) bool
	seen    func(*Tensor) error
	realloc func(backendsChanged, sizeChanged bool)
	copy    func(w *WeightCopy) (done bool, err error)

	graph *Graph // that is being computed
	run   *computation
	node  *Tensor
	err   error // the first failure of a function
}

var schedCallbackTable callbackTable[schedCallbacks]

// SetEvalCallback lets seen look at the nodes of each graph that is computed
// from now on, right after their computation and in its order. want chooses
// them: it is called for each node before its computation, or nil for all
// nodes. A nil seen ends it.
//
// The tensor that seen gets can be read until seen returns, also without
// [Tensor.SetOutput]. An error, or a panic (as a [*PanicError]), stops the
// computation and is its error. The functions may use this package, but not
// this scheduler or its backends, which wait for them and give an [ErrBusy]; nor
// may they end their goroutine by [runtime.Goexit]. The nodes between two that are wanted are
// computed together, all others one by one.
// C: ggml_backend_sched_set_eval_callback.
func (s *Scheduler) SetEvalCallback(want func(t *Tensor) bool, seen func(t *Tensor) error) error {
	s = made(s)
	return s.setCallbacks(func(c *schedCallbacks) {
		c.want, c.seen = want, seen
		s.enableEval(seen != nil)
	})
}

// SetReallocCallback lets f know when the memory that the scheduler has does
// not suffice for a graph, and Allocate takes more: sizeChanged is true then, and
// backendsChanged when a backend had none before. Reserve for the largest graph
// avoids that. f must not use the scheduler; a panic is the error of Allocate. Nil
// ends it. C: ggml_backend_sched_set_realloc_callback.
func (s *Scheduler) SetReallocCallback(f func(backendsChanged, sizeChanged bool)) error {
	s = made(s)
	return s.setCallbacks(func(c *schedCallbacks) { c.realloc = f })
}

func (s *Scheduler) setCallbacks(f func(c *schedCallbacks)) error {
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	f(s.callbacks)
	return nil
}

func (s *Scheduler) enableEval(on bool) {
	id := C.uintptr_t(0)
	if on {
		id = C.uintptr_t(s.callbacks.id)
	}
	C.goggml_sched_set_eval(s.s, id)
}

// TensorBackend finds the backend on which a tensor of the allocated graph lies
// or is computed. C: ggml_backend_sched_get_tensor_backend.
func (s *Scheduler) TensorBackend(t *Tensor) (*Backend, bool) {
	s = made(s)
	if t.ptr() == nil || s.h.acquire() != nil {
		return nil, false
	}
	defer s.h.release()
	if lock(&s.current.mu) != nil {
		return nil, false
	}
	defer s.current.mu.Unlock()
	g, concerned := s.split.Value(), false
	if g == nil {
		return nil, false
	}
	var refs references
	defer refs.release()
	for _, c := range g.ctx.withDependencies() {
		if refs.add(c.h) != nil {
			return nil, false
		}
	}
	g.withRef(func() {
		concerned = g.version() == s.nodes && bool(C.goggml_graph_contains(g.g, unsafe.SliceData(g.leaves), C.int(len(g.leaves)), t.t))
	})
	if !concerned {
		return nil, false // ggml would make room for it, and end the process when there is none
	}
	b := s.tensorBackend(t)
	return b, b != nil
}

func (s *Scheduler) tensorBackend(t *Tensor) *Backend {
	found := C.ggml_backend_sched_get_tensor_backend(s.s, t.t)
	i := slices.IndexFunc(s.backends, func(b *Backend) bool { return b.b == found })
	if i < 0 {
		return nil
	}
	return s.backends[i]
}

// eval runs compute, which computes the graph, with the callbacks in place.
func (s *Scheduler) eval(g *Graph, compute func(*computation) error) error {
	c := s.callbacks
	c.graph, c.run = g, &computation{backends: s.backends, locks: []*sync.Mutex{&s.current.mu}, calls: c.seen != nil || c.copy != nil}
	err := compute(c.run)
	c.graph, c.run = nil, nil
	if failure := c.failure(); failure != nil && err == nil {
		return failure
	}
	return err
}

// failure takes the failure of a function.
func (c *schedCallbacks) failure() error {
	err, node := c.err, c.node
	c.err, c.node = nil, nil
	if err == nil || node == nil {
		return err
	}
	return &OpError{Op: node.Op(), Operands: []Operand{node.operand()}, Reason: "the callback: " + err.Error(), Caller: callerLine(), Err: err}
}

//export goggmlSchedEval
func goggmlSchedEval(id C.uintptr_t, node *C.struct_ggml_tensor, ask C.bool, slot *C.uintptr_t) C.bool {
	c := schedCallbackTable.find(uintptr(id))
	if c == nil || c.graph == nil {
		return false
	}
	if c.err != nil {
		// One node more, and then the scheduler asks whether to go on.
		return ask
	}
	defer c.run.enter(slot)()
	t := c.graph.tensor(node)
	var yes bool
	err := protect(func() (err error) {
		if bool(ask) {
			yes = c.want == nil || c.want(t)
			return nil
		}
		t.observed = &atomic.Bool{}
		t.observed.Store(true)
		defer t.observed.Store(false)
		return c.seen(t)
	})
	if err == nil {
		return C.bool(yes || !bool(ask))
	}
	c.fail(err, t)
	return ask
}

// fail ends the computation.
func (c *schedCallbacks) fail(err error, node *Tensor) {
	c.err, c.node = err, node
	for _, b := range c.run.backends {
		b.abort.raise()
	}
}

// reserved reports to the callback what the reserve for a graph has changed.
func (c *schedCallbacks) reserved(before, after []memoryUse) {
	if c.realloc == nil {
		return
	}
	var backends, size bool
	for i := range after {
		size = size || after[i].bytes > before[i].bytes
		backends = backends || before[i].bytes == 0 && after[i].bytes > 0
	}
	if size {
		c.err = protect(func() error {
			c.realloc(backends, size)
			return nil
		})
	}
}

// keepOnCPU assigns to the CPU the nodes that a function of this process
// computes, with what they change in place, and those with repacked weights:
// another device may take them without knowing what they are.
func (s *Scheduler) keepOnCPU(sched C.ggml_backend_sched_t, g *Graph) *C.char {
	cpu := s.backends[len(s.backends)-1]
	for _, next := range []func(i *C.int) *C.struct_ggml_tensor{
		func(i *C.int) *C.struct_ggml_tensor { return C.goggml_graph_next_custom(g.g, i) },
		func(i *C.int) *C.struct_ggml_tensor { return C.goggml_graph_next_repacked(g.g, i) },
	} {
		var i C.int
		for node := next(&i); node != nil; node = next(&i) {
			if e := assignInPlace(sched, node, cpu); e != nil {
				return e
			}
		}
	}
	return nil
}

// moveRefused assigns what one of the devices says it computes, and would end the process on, to
// the first backend that computes it.
func (s *Scheduler) moveRefused(sched C.ggml_backend_sched_t, g *Graph) *C.char {
	var devices []C.ggml_backend_dev_t
	for _, b := range s.backends {
		devices = append(devices, b.device.d)
	}
	var i C.int
	for {
		node := C.goggml_graph_next_refused(g.g, unsafe.SliceData(devices), C.int(len(devices)), &i)
		if node == nil {
			return nil
		}
		k := slices.IndexFunc(devices, func(d C.ggml_backend_dev_t) bool { return bool(C.goggml_supports(d, node)) })
		if k < 0 {
			continue // the check of the graph says so
		}
		if e := assignInPlace(sched, node, s.backends[k]); e != nil {
			return e
		}
	}
}

// assignInPlace assigns a node, with what it changes in place.
func assignInPlace(sched C.ggml_backend_sched_t, node *C.struct_ggml_tensor, b *Backend) *C.char {
	for t := node; t != nil && (t == node || t.buffer == nil); t = t.view_src {
		if e := C.goggml_sched_set_tensor_backend(sched, t, b.b); e != nil {
			return e
		}
	}
	return nil
}
