package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"slices"
)

// Order adds tensors and their dependencies, like Expand, but fixes only their order: none is
// computed until Expand adds a tensor that needs it. It returns the graph. C:
// ggml_build_forward_order.
func (g *Graph) Order(tensors ...*Tensor) *Graph {
	g = made(g)
	for _, t := range tensors {
		g.insert(t, false)
	}
	return g
}

// Select adds tensors like Expand, but computes only branch i and its dependencies, and returns
// that branch. A graph rebuilt for each compute thus has the same nodes for every choice, and an
// allocator keeps its plan. Once Expand or Select has marked a tensor for computation, in any
// graph, it stays marked: make the ops anew to choose another branch. See [Tensor.IsComputed]. C:
// ggml_build_forward_select.
func (g *Graph) Select(i int, branches ...*Tensor) *Tensor {
	g = made(g)
	if i < 0 || i >= len(branches) {
		return g.ctx.failed(g.errorf(nil, "there is no branch %d: there are %d", i, len(branches)))
	}
	for k, t := range branches {
		g.insert(t, k == i)
	}
	if err := g.ctx.Err(); err != nil {
		return &Tensor{ctx: g.ctx, err: err}
	}
	return branches[i]
}

// IsComputed reports whether a graph that contains the tensor computes it; for a view, whether its
// source is computed. It is false for leaves, for tensors in no graph, and for branches that
// [Graph.Select] did not choose. C: GGML_TENSOR_FLAG_COMPUTE.
func (t *Tensor) IsComputed() bool {
	yes := false
	t.withRefs(func() { yes = C.goggml_origin(t.t).flags&C.GGML_TENSOR_FLAG_COMPUTE != 0 })
	return yes
}

// AddNode appends tensors, in this order, after all nodes of the graph. They must not be in the
// graph yet; each dependency must be a leaf or come before its user (Expand would add it too). It
// returns the graph. C: ggml_graph_add_node.
func (g *Graph) AddNode(tensors ...*Tensor) *Graph {
	g = made(g)
	if err := g.append(tensors); err != nil {
		g.ctx.fail(err)
	}
	return g
}

// append is AddNode but returns the error.
func (g *Graph) append(tensors []*Tensor) error {
	if len(tensors) == 0 {
		return nil
	}
	_, release, err := g.hold(tensors...)
	if err != nil {
		return err
	}
	defer release()
	g.ctx.mu.Lock()
	defer g.ctx.mu.Unlock()
	list, room, err := g.appendable(tensors)
	if err != nil {
		return err
	}
	if err := g.reserve(room); err != nil {
		return err
	}
	for _, p := range list {
		if p.op == C.GGML_OP_NONE {
			g.leaves = append(g.leaves, p)
		}
	}
	if err := guardError(C.goggml_graph_expand(g.g, &list[0], C.size_t(len(list)), true)); err != nil {
		return callError(nil, err.Error(), tensors[0].operand())
	}
	return nil
}

// appendable lists the tensors with the sources of aliases, if each can be the next node, and
// counts the graph's nodes and leaves after adding them. The caller has locked graph and context.
func (g *Graph) appendable(tensors []*Tensor) (list []*C.struct_ggml_tensor, room int, err error) {
	has := map[*C.struct_ggml_tensor]bool{}
	if g.g != nil {
		room = int(C.goggml_graph_count_uses(g.g))
		for i := range C.ggml_graph_n_nodes(g.g) {
			has[C.ggml_graph_node(g.g, i)] = true
		}
	}
	for _, t := range tensors {
		if has[t.t] {
			return nil, 0, t.errorf(nil, "the graph has this tensor already")
		}
		for i, source := range t.t.src {
			if source != nil && source.op != C.GGML_OP_NONE && !has[source] && source != t.t { // a cast is its own operand
				return nil, 0, t.errorf(nil, "operand %d is not in the graph; call Expand", i)
			}
			if source == nil || source.op != C.GGML_OP_NONE {
				continue
			}
			if room++; source.src[0] != nil { // the source of an alias
				room++
			}
			if t.t.op == C.GGML_OP_NONE { // ggml accepts an alias of one of the graph's tensors
				list = append(list, source)
			}
		}
		has[t.t] = true
		list = append(list, t.t)
		room++
	}
	return list, room, nil
}

// Capacity returns the number of nodes that the graph has room for; adding more grows it. C:
// ggml_graph_size.
func (g *Graph) Capacity() int {
	g = made(g)
	var n int
	g.withRef(func() { n = int(C.ggml_graph_size(g.g)) })
	return n
}

// Tensor returns a node or leaf by name; none if a context that the graph depends on is closed. C:
// ggml_graph_get_tensor.
func (g *Graph) Tensor(name string) (*Tensor, bool) {
	g = made(g)
	if hasNUL(name) {
		return nil, false
	}
	release, err := retain(g.ctx.withDependencies())
	if err != nil {
		return nil, false
	}
	defer release()
	var p *C.struct_ggml_tensor
	g.withRef(func() {
		p = withCString(name, func(s *C.char) *C.struct_ggml_tensor { return C.ggml_graph_get_tensor(g.g, s) })
	})
	if p == nil {
		return nil, false
	}
	return g.tensor(p), true
}

// Clear removes all tensors from the graph; its capacity stays. The tensors stay in their contexts.
// C: ggml_graph_clear.
func (g *Graph) Clear() {
	g = made(g)
	if err := lock(&g.busy); err != nil {
		g.ctx.fail(during(err, g.operand()))
		return
	}
	defer g.busy.Unlock()
	g.withRef(func() {
		C.ggml_graph_clear(g.g)
		g.leaves, g.backward = nil, false
		g.forget()
	})
}

// Clone makes an independent graph of the same tensors in context c. It has room for gradients if
// asked for, or if g has it. Gradients made by Backward are shared. C: ggml_graph_dup.
func (g *Graph) Clone(c *Context, gradients bool) (*Graph, error) {
	g = made(g)
	if c == nil {
		return nil, g.errorf(nil, "the context is nil")
	}
	clone := &Graph{ctx: c.made(), grads: gradients || g.grads}
	if err := clone.take(g); err != nil {
		return nil, err
	}
	return clone, nil
}

// CopyFrom replaces the tensors of the graph by the tensors of another. If the other graph has room
// for gradients, this one needs it too. C: ggml_graph_cpy.
func (g *Graph) CopyFrom(from *Graph) error {
	g = made(g)
	if from == nil {
		return g.errorf(nil, "the other graph is nil")
	}
	if from == g {
		return nil
	}
	if from.grads && !g.grads {
		return g.errorf(nil, "the graph has no room for the gradients of the other; make it with NewTrainingGraph")
	}
	return g.take(from)
}

// take copies another graph. It locks only the other graph while copying, so that two graphs can be
// copied to each other at once.
func (g *Graph) take(from *Graph) error {
	release, err := retainChecked(append(g.ctx.withDependencies(), from.ctx.withDependencies()...))
	if err != nil {
		return during(err, from.operand())
	}
	defer release()
	copied, leaves, backward, err := g.copyOf(from)
	if err != nil {
		return err
	}
	if err := lock(&g.busy); err != nil {
		return during(err, g.operand())
	}
	defer g.busy.Unlock()
	g.ctx.mu.Lock()
	defer g.ctx.mu.Unlock()
	g.g, g.leaves, g.backward = copied, leaves, backward
	g.forget()
	return nil
}

// copyOf copies another graph into the context of this one. The caller retains both.
func (g *Graph) copyOf(from *Graph) (copied *C.struct_ggml_cgraph, leaves []*C.struct_ggml_tensor, backward bool, err error) {
	if err := lock(&from.busy); err != nil {
		return nil, nil, false, during(err, from.operand())
	}
	defer from.busy.Unlock()
	g.ctx.mu.Lock()
	defer g.ctx.mu.Unlock()
	if g.ctx != from.ctx {
		g.ctx.addDep(from.ctx)
	}
	if from.g == nil {
		return nil, nil, false, callError(nil, "the graph is empty; add tensors by Expand", Operand{Name: "graph of 0 nodes"})
	}
	r := C.goggml_graph_grow(g.ctx.graphs, from.g, C.size_t(C.ggml_graph_size(from.g)), C.bool(g.grads))
	if err := guardError(r.error); err != nil {
		return nil, nil, false, callError(nil, err.Error(), Operand{Name: fmt.Sprintf("graph of %d nodes", int(C.ggml_graph_n_nodes(from.g)))})
	}
	return (*C.struct_ggml_cgraph)(r.value), slices.Clone(from.leaves), from.backward, nil
}
