package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"iter"
)

// A Graph is a list of tensors in the order in which they are computed, with
// all that they depend on. It belongs to the [Context] that made it, and grows
// as needed.
//
// Building a graph keeps the first error, which allocation and compute return,
// as the context does. A Graph is safe for concurrent use, but computing it
// twice at once is not. C: struct ggml_cgraph.
type Graph struct {
	ctx   *Context
	g     *C.struct_ggml_cgraph
	grads bool
}

// NewGraph makes a graph that computes the outputs, which are marked as such
// (see [Tensor.SetOutput]). More can be added by Expand. C: ggml_new_graph.
func (c *Context) NewGraph(outputs ...*Tensor) *Graph {
	return c.newGraph(false, outputs)
}

// NewTrainingGraph is NewGraph with room for gradients: see [Graph.Backward].
// C: ggml_new_graph_custom.
func (c *Context) NewTrainingGraph(outputs ...*Tensor) *Graph {
	return c.newGraph(true, outputs)
}

func (c *Context) newGraph(grads bool, outputs []*Tensor) *Graph {
	g := &Graph{ctx: c, grads: grads}
	for _, t := range outputs {
		t.SetOutput()
	}
	return g.Expand(outputs...)
}

// Context returns the owner.
func (g *Graph) Context() *Context { return g.ctx }

// Expand adds tensors and all that they depend on, in this order, as far as
// they are not in the graph yet. It returns the graph.
// C: ggml_build_forward_expand.
func (g *Graph) Expand(tensors ...*Tensor) *Graph {
	for _, t := range tensors {
		if err := g.expand(t); err != nil {
			g.ctx.fail(err)
			return g
		}
	}
	return g
}

func (g *Graph) expand(t *Tensor) error {
	const op = "build_forward_expand"
	if t == nil {
		return &OpError{Op: op, Operands: []Operand{t.operand()}, Reason: "the tensor is nil", Caller: callerLine()}
	}
	if t.ctx != g.ctx {
		g.ctx.mu.Lock()
		g.ctx.addDep(t.ctx)
		g.ctx.mu.Unlock()
	}
	contexts := g.ctx.closure()
	unpin, err := pin(contexts)
	if err != nil {
		return err
	}
	defer unpin()
	if t.t == nil {
		return &OpError{Op: op, Operands: []Operand{t.operand()}, Reason: "the tensor comes from an op that failed", Caller: callerLine()}
	}
	g.ctx.mu.Lock()
	defer g.ctx.mu.Unlock()
	// All that t can depend on lies in these contexts.
	bound := 1
	for _, c := range contexts {
		bound += int(C.goggml_arena_tensors(c.arena))
	}
	if err := g.reserve(bound); err != nil {
		return err
	}
	return guardError(C.goggml_graph_expand(g.g, t.t))
}

// reserve makes room for n nodes. The caller holds the context's lock.
func (g *Graph) reserve(n int) error {
	if g.g != nil && int(C.ggml_graph_size(g.g)) >= n {
		return nil
	}
	var r C.goggml_ptr
	if g.g == nil {
		r = C.goggml_graph_new(g.ctx.graphs, C.size_t(n), C.bool(g.grads))
	} else {
		r = C.goggml_graph_grow(g.ctx.graphs, g.g, C.size_t(2*n), C.bool(g.grads))
	}
	if err := guardError(r.error); err != nil {
		return fmt.Errorf("ggml: a graph of %d nodes: %w", n, err)
	}
	g.g = (*C.struct_ggml_cgraph)(r.value)
	return nil
}

// Backward extends a training graph by the gradients of its loss (see
// [Tensor.SetLoss]) with respect to its parameters (see [Tensor.SetParam]).
// Grad finds them. Ops without a backward are an error.
// C: ggml_build_backward_expand.
func (g *Graph) Backward() error {
	if !g.grads {
		return fmt.Errorf("ggml: the graph has no room for gradients; make it by NewTrainingGraph")
	}
	unpin, err := pin(g.ctx.closure())
	if err != nil {
		return err
	}
	defer unpin()
	if g.g == nil {
		return fmt.Errorf("ggml: the graph is empty")
	}
	g.ctx.mu.Lock()
	defer g.ctx.mu.Unlock()
	// A rule of the backward pass makes fewer than 16 nodes.
	if err := g.reserve(16 * (int(C.ggml_graph_n_nodes(g.g)) + 1)); err != nil {
		return err
	}
	if err := guardError(C.goggml_graph_backward(g.ctx.arena, g.g, nil)); err != nil {
		g.ctx.err = fmt.Errorf("ggml: build_backward_expand: %w", err)
		return g.ctx.err
	}
	return nil
}

// Reset sets the gradient of the loss to 1, and other gradients that live from
// one compute to the next to 0. The graph is allocated. A compute overwrites
// the gradient of the loss: call Reset before each. C: ggml_graph_reset.
func (g *Graph) Reset() error {
	unpin, err := g.ready(nil)
	if err != nil {
		return err
	}
	defer unpin()
	return guardError(C.goggml_graph_reset(g.g))
}

// Grad returns the gradient of a tensor, nil when the graph has none.
// C: ggml_graph_get_grad.
func (g *Graph) Grad(t *Tensor) *Tensor {
	if !g.grads {
		return nil
	}
	var grad *Tensor
	g.inspect(func() {
		if p := C.ggml_graph_get_grad(g.g, t.ptr()); p != nil {
			grad = newTensor(g.ctx, p)
		}
	})
	return grad
}

func (g *Graph) inspect(f func()) {
	if g.ctx.h.acquire() != nil {
		return
	}
	defer g.ctx.h.release()
	g.ctx.mu.Lock()
	defer g.ctx.mu.Unlock()
	if g.g != nil {
		f()
	}
}

// NumNodes counts the tensors that are computed. C: ggml_graph_n_nodes.
func (g *Graph) NumNodes() int {
	var n int
	g.inspect(func() { n = int(C.ggml_graph_n_nodes(g.g)) })
	return n
}

// Nodes iterates over the tensors in the order of computation.
// C: ggml_graph_node.
func (g *Graph) Nodes() iter.Seq[*Tensor] {
	return func(yield func(*Tensor) bool) {
		for i := range g.NumNodes() {
			var t *Tensor
			g.inspect(func() { t = newTensor(g.ctx, C.ggml_graph_node(g.g, C.int(i))) })
			if t == nil || !yield(t) {
				return
			}
		}
	}
}

// ready holds the graph and its data for a compute on a device (nil: on
// several), after the checks of what would crash it.
func (g *Graph) ready(d *Device) (unpin func(), err error) {
	return g.check(d, true)
}

func (g *Graph) check(d *Device, allocated bool) (unpin func(), err error) {
	if g == nil {
		return nil, fmt.Errorf("ggml: the graph is nil")
	}
	unpin, err = pin(g.ctx.closure())
	if err != nil {
		return nil, err
	}
	if err := g.faults(d, allocated); err != nil {
		unpin()
		return nil, err
	}
	return unpin, nil
}

func (g *Graph) faults(d *Device, allocated bool) error {
	if g.g == nil {
		return fmt.Errorf("ggml: the graph is empty; add tensors by Expand")
	}
	var device C.ggml_backend_dev_t
	if d != nil {
		device = d.d
	}
	c := C.goggml_graph_check(g.g, device, C.bool(allocated))
	if c.fault == C.GOGGML_FAULT_NONE {
		return nil
	}
	node := newTensor(g.ctx, c.node)
	e := &OpError{Op: node.Op(), Caller: callerLine(), Operands: []Operand{node.operand()}}
	if c.operand != nil {
		e.Operands = append(e.Operands, newTensor(g.ctx, c.operand).operand())
	}
	switch c.fault {
	case C.GOGGML_FAULT_UNALLOCATED:
		e.Err = ErrNotAllocated
		e.Reason = "the last of these has no memory; allocate its context, or the graph with a GraphAllocator or a Scheduler"
	case C.GOGGML_FAULT_INDEX:
		e.Reason = fmt.Sprintf("row index %d is out of range: there are %d rows", int64(c.value), int64(c.limit))
	case C.GOGGML_FAULT_UNSUPPORTED:
		e.Reason = fmt.Sprintf("device %s does not support this op on these types and shapes; use a Scheduler with the CPU as its last backend", d.Name())
	}
	return e
}
