package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// schedCallbacks are the Go functions that a scheduler calls. The scheduler's lock, which a call
// holds while it runs them, guards the fields.
type schedCallbacks struct {
	id      uintptr
	want    func(*Tensor) bool
	seen    func(*Tensor) error
	realloc func(backendsChanged, sizeChanged bool)
	copy    func(w *WeightCopy) (done bool, err error)

	graph *Graph // the graph being computed
	run   *computation
	node  *Tensor
	err   error // the first error of a function
}

var schedCallbackTable callbackTable[schedCallbacks]

// SetEvalCallback shows seen the nodes of each graph computed from now on, right after their
// computation and in its order. want selects them: it is called for each node before its
// computation; nil selects all nodes. A nil seen removes the callback.
//
// seen can read its tensor until it returns, also without [Tensor.SetOutput]. An error, or a panic
// (as a [*PanicError]), stops the computation and becomes its error. The functions may use this
// package, except this scheduler and its backends, which are busy and return [ErrBusy]; they must
// not end their goroutine by [runtime.Goexit]. Unselected nodes up to the next selected one are
// computed together. C: ggml_backend_sched_set_eval_callback.
func (s *Scheduler) SetEvalCallback(want func(t *Tensor) bool, seen func(t *Tensor) error) error {
	s = made(s)
	return s.setCallbacks(func(c *schedCallbacks) {
		c.want, c.seen = want, seen
		s.enableEval(seen != nil)
	})
}

// SetReallocCallback calls f if the scheduler's memory is too small for a graph, and Allocate takes
// more: sizeChanged is then true, and backendsChanged is true if a backend had no memory before.
// Reserve for the largest graph avoids this. f must not use the scheduler; a panic becomes the
// error of Allocate. A nil f removes the callback. C: ggml_backend_sched_set_realloc_callback.
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

// TensorBackend returns the backend that holds or computes a tensor of the allocated graph. C:
// ggml_backend_sched_get_tensor_backend.
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
		return nil, false // ggml would add it to a table, and end the process if the table is full
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

// eval runs compute, which computes the graph, with the callbacks set.
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

// failure returns and clears the error of a function.
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
		// After one more node, the scheduler asks whether to continue.
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

// fail stops the computation.
func (c *schedCallbacks) fail(err error, node *Tensor) {
	c.err, c.node = err, node
	for _, b := range c.run.backends {
		b.abort.raise()
	}
}

// reserved reports changes by the reserve for a graph to the callback.
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

// keepOnCPU assigns to the CPU the nodes that a function of this process computes, with the tensors
// they change in place, and the nodes with repacked weights: another device may claim them without
// knowing what they are. Native ops that all other devices compute stay where their weights are.
func (s *Scheduler) keepOnCPU(sched C.ggml_backend_sched_t, g *Graph) *C.char {
	cpu := s.backends[len(s.backends)-1]
	for _, next := range []func(i *C.int) *C.struct_ggml_tensor{
		func(i *C.int) *C.struct_ggml_tensor { return C.goggml_graph_next_custom(g.g, i) },
		func(i *C.int) *C.struct_ggml_tensor { return C.goggml_graph_next_repacked(g.g, i) },
	} {
		var i C.int
		for node := next(&i); node != nil; node = next(&i) {
			if s.isRemote(node) {
				continue
			}
			if e := assignInPlace(sched, node, cpu); e != nil {
				return e
			}
		}
	}
	return nil
}

// isRemote reports whether all devices but the CPU compute a native op.
func (s *Scheduler) isRemote(node *C.struct_ggml_tensor) bool {
	others := s.backends[:len(s.backends)-1]
	return len(others) > 0 && !slices.ContainsFunc(others, func(b *Backend) bool { return !bool(C.goggml_computes_native(b.device.d, node)) })
}

// moveRefused assigns ops that a device claims to support, although they would end the process, to
// the first backend that computes them.
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
			continue // the check of the graph reports it
		}
		if e := assignInPlace(sched, node, s.backends[k]); e != nil {
			return e
		}
	}
}

// assignInPlace assigns a node and the tensor that it changes in place.
func assignInPlace(sched C.ggml_backend_sched_t, node *C.struct_ggml_tensor, b *Backend) *C.char {
	for t := node; t != nil && (t == node || t.buffer == nil); t = t.view_src {
		if e := C.goggml_sched_set_tensor_backend(sched, t, b.b); e != nil {
			return e
		}
	}
	return nil
}
