package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"slices"
	"sync/atomic"
)

// A WeightCopy is a weight in system memory that a scheduler is about to copy to the backend that
// computes with it. It is valid until the function that received it returns. C:
// ggml_backend_sched_copy_callback.
type WeightCopy struct {
	Backend *Backend // computes with the copy
	Weight  *Tensor  // in system memory

	*weightCopying // shared by copies of the WeightCopy
}

type weightCopying struct {
	backend *Backend
	weight  *Tensor
	dst     *C.struct_ggml_tensor // nil once the function has returned
	graph   *Graph
	split   *C.struct_ggml_cgraph
}

// over reports whether the function has returned, or the WeightCopy is a zero value.
func (w *weightCopying) over() bool { return w == nil || w.dst == nil }

var errCopyOver = errors.New("ggml: the copy of a weight is gone: it is only valid within the function that received it")

// Nodes lists the ops that the backend computes next, in order, including the ops that use the
// weight; they have the copy as operand.
func (w *WeightCopy) Nodes() []*Tensor {
	w = made(w)
	var nodes []*Tensor
	if w.over() {
		return nil
	}
	for i := range C.ggml_graph_n_nodes(w.split) {
		nodes = append(nodes, w.graph.tensor(C.ggml_graph_node(w.split, i)))
	}
	return nodes
}

// Operands lists the operands of one of the Nodes. Operands that are already computed can be read,
// such as the ids of [Context.MulMatID], which select the needed parts of the weight.
func (w *WeightCopy) Operands(node *Tensor) ([]*Tensor, error) {
	w = made(w)
	if w.over() {
		return nil, errCopyOver
	}
	// They may be on their way to the backend.
	if err := guardError(C.goggml_backend_synchronize(w.backend.b)); err != nil {
		return nil, err
	}
	operands := node.Sources()
	for _, t := range operands {
		t.observed = &atomic.Bool{}
		t.observed.Store(true)
	}
	return operands, nil
}

// Copy copies a part of the weight, in bytes.
func (w *WeightCopy) Copy(offset, size int64) error {
	w = made(w)
	if w.over() {
		return errCopyOver
	}
	if n := w.weight.NumBytes(); offset < 0 || size < 0 || offset > n || size > n-offset {
		return w.weight.errorf(nil, "%d bytes at offset %d reach beyond the tensor, which has %d", size, offset, n)
	}
	if size == 0 {
		return nil
	}
	return guardError(C.goggml_copy_part(w.backend.b, w.weight.t, w.dst, C.size_t(offset), C.size_t(size)))
}

// SetCopyCallback makes f, instead of the scheduler, copy weights in system memory (in buffers with
// [UsageWeights]) to the backend that computes with them: only the needed parts. If f returns false
// for done, the scheduler copies all. An error, or a panic (as a [*PanicError]), ends the
// computation and becomes its error; f obeys the rules for functions of
// [Scheduler.SetEvalCallback]. A nil f removes the callback. C:
// ggml_backend_sched_set_copy_callback.
func (s *Scheduler) SetCopyCallback(f func(w *WeightCopy) (done bool, err error)) error {
	s = made(s)
	return s.setCallbacks(func(c *schedCallbacks) {
		c.copy = f
		id := C.uintptr_t(c.id)
		if f == nil {
			id = 0
		}
		C.goggml_sched_set_copy(s.s, id)
	})
}

//export goggmlSchedCopy
func goggmlSchedCopy(id C.uintptr_t, b C.ggml_backend_t, src, dst *C.struct_ggml_tensor, split *C.struct_ggml_cgraph, slot *C.uintptr_t) C.bool {
	c := schedCallbackTable.find(uintptr(id))
	if c == nil || c.graph == nil || c.copy == nil || c.err != nil {
		return false
	}
	i := slices.IndexFunc(c.run.backends, func(x *Backend) bool { return x.b == b })
	if i < 0 {
		return false
	}
	defer c.run.enter(slot)()
	state := &weightCopying{backend: c.run.backends[i], weight: c.graph.tensor(src), dst: dst, graph: c.graph, split: split}
	w := &WeightCopy{Backend: state.backend, Weight: state.weight, weightCopying: state}
	done := false
	err := protect(func() (err error) {
		done, err = c.copy(w)
		return err
	})
	state.dst = nil
	if err != nil {
		c.fail(err, state.weight)
		return false
	}
	return C.bool(done)
}
