package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// A Graph is a list of tensors in order of computation, with all their dependencies. It belongs to
// the [Context] that made it, and grows as needed. Once the context is closed, the graph appears
// empty.
//
// A graph keeps the first error of its construction, as a context does; allocation and compute
// return it. A Graph is safe for concurrent use: changes and computations run one at a time. C:
// struct ggml_cgraph.
type Graph struct {
	ctx      *Context
	busy     sync.Mutex // one change or computation at a time; locked before the context
	g        *C.struct_ggml_cgraph
	grads    bool
	backward bool                    // Backward was called
	leaves   []*C.struct_ggml_tensor // expanded by the caller, possibly used by no node
	checked  C.goggml_check_key      // key of the last check that found no fault
	indices  []C.goggml_row_index    // row indices found by that check
	customs  customNodes             // custom ops of the graph
	added    addedTensors            // tensors added by deep expansions
	replaced int                     // number of replacements of its tensors
}

// A graphVersion identifies the nodes of a graph, to detect changes.
type graphVersion struct {
	replaced int
	nodes    C.int
}

// version returns the version of a locked and retained graph.
func (g *Graph) version() graphVersion {
	return graphVersion{g.replaced, C.ggml_graph_n_nodes(g.g)}
}

// forget drops caches about replaced tensors.
func (g *Graph) forget() {
	g.replaced++
	g.checked, g.indices, g.customs, g.added = C.goggml_check_key{}, nil, customNodes{}, nil
}

// NewGraph makes a graph that computes the outputs and marks them, see [Tensor.SetOutput]. Expand
// adds more. C: ggml_new_graph.
func (c *Context) NewGraph(outputs ...*Tensor) *Graph {
	return c.newGraph(false, outputs)
}

// NewTrainingGraph is NewGraph with room for gradients: see [Graph.Backward].
// C: ggml_new_graph_custom.
func (c *Context) NewTrainingGraph(outputs ...*Tensor) *Graph {
	return c.newGraph(true, outputs)
}

func (c *Context) newGraph(grads bool, outputs []*Tensor) *Graph {
	g := &Graph{ctx: c.made(), grads: grads}
	for _, t := range outputs {
		t.SetOutput()
	}
	return g.Expand(outputs...)
}

// Context returns the context that made the graph.
func (g *Graph) Context() *Context {
	g = made(g)
	return g.ctx
}

// Expand adds tensors and their dependencies, in this order, except those already in the graph. It
// returns the graph. C: ggml_build_forward_expand.
func (g *Graph) Expand(tensors ...*Tensor) *Graph {
	g = made(g)
	for _, t := range tensors {
		g.insert(t, true)
	}
	return g
}

// insert is expand; the context keeps the error.
func (g *Graph) insert(t *Tensor, compute bool) {
	if err := g.expand(t, compute); err != nil {
		g.ctx.fail(err)
	}
}

// hold locks the graph and retains its context and the contexts of tensors, until release.
func (g *Graph) hold(tensors ...*Tensor) (contexts []*Context, release func(), err error) {
	for _, t := range tensors {
		if t == nil {
			return nil, nil, t.errorf(errNil, "the tensor is nil")
		}
		if t.ctx != g.ctx && t.t != nil && g.ctx != nil {
			g.ctx.mu.Lock()
			g.ctx.addDep(t.ctx)
			g.ctx.mu.Unlock()
		}
	}
	if len(tensors) == 0 {
		return nil, func() {}, nil
	}
	if err := lock(&g.busy); err != nil {
		return nil, nil, during(err, tensors[0].operand())
	}
	contexts = g.ctx.withDependencies()
	retained, err := retainChecked(contexts)
	if err != nil {
		g.busy.Unlock()
		return nil, nil, during(err, tensors[0].operand())
	}
	release = func() {
		retained()
		g.busy.Unlock()
	}
	for _, t := range tensors {
		if t.t == nil {
			release()
			return nil, nil, t.failure()
		}
	}
	return contexts, release, nil
}

// expand adds a tensor with its dependencies; without compute it only fixes their order.
func (g *Graph) expand(t *Tensor, compute bool) error {
	contexts, release, err := g.hold(t)
	if err != nil {
		return err
	}
	defer release()
	// These contexts contain all dependencies of t.
	bound := 1
	for _, c := range contexts {
		bound += c.tensorBound()
	}
	g.ctx.mu.Lock()
	defer g.ctx.mu.Unlock()
	if err := g.reserve(bound); err != nil {
		return err
	}
	if t.t.op == C.GGML_OP_NONE {
		g.leaves = append(g.leaves, t.t)
	}
	if source := t.t.src[0]; t.t.op == C.GGML_OP_NONE && source != nil { // ggml accepts an alias of one of the graph's tensors
		err = g.insertAll(source, bound, compute)
	}
	if err == nil {
		err = g.insertAll(t.t, bound, compute)
	}
	if err != nil {
		return callError(nil, err.Error(), t.operand())
	}
	return nil
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

func (g *Graph) withRef(f func()) {
	if g.ctx.made().h.acquire() != nil {
		return
	}
	defer g.ctx.h.release()
	g.ctx.mu.Lock()
	defer g.ctx.mu.Unlock()
	if g.g != nil {
		f()
	}
}

// NumNodes returns the number of computed tensors. C: ggml_graph_n_nodes.
func (g *Graph) NumNodes() int {
	g = made(g)
	var n int
	g.withRef(func() { n = int(C.ggml_graph_n_nodes(g.g)) })
	return n
}

// Nodes iterates over the computed tensors in order of computation; it yields none if one of their
// contexts is closed. C: ggml_graph_node, ggml_graph_nodes.
func (g *Graph) Nodes() iter.Seq[*Tensor] {
	g = made(g)
	return func(yield func(*Tensor) bool) {
		for i := range g.NumNodes() {
			t := g.node(i)
			if t == nil || !yield(t) {
				return
			}
		}
	}
}

func (g *Graph) node(i int) *Tensor {
	release, err := retain(g.ctx.withDependencies())
	if err != nil {
		return nil
	}
	defer release()
	var p *C.struct_ggml_tensor
	g.withRef(func() {
		if i < int(C.ggml_graph_n_nodes(g.g)) { // another goroutine may have cleared the graph
			p = C.ggml_graph_node(g.g, C.int(i))
		}
	})
	if p == nil {
		return nil
	}
	return g.tensor(p)
}

// A checkLevel selects how much of a graph is checked.
type checkLevel int

const (
	checkBuilt     checkLevel = iota // its ops have not failed, its contexts are open
	checkAllocated                   // and its tensors are allocated
	checkReady                       // and row indices are in range
)

// check validates the graph for an operation that would crash otherwise, then locks the graph and
// retains its data until release. One of the devices, if any are given, must support each op.
func (g *Graph) check(devices []*Device, level checkLevel) (release func(), err error) {
	releaseData, err := g.lock(devices, level)
	if err != nil {
		return nil, err
	}
	return func() {
		releaseData()
		g.busy.Unlock()
	}, nil
}

// lock is check for callers that unlock the graph, g.busy, themselves; release is only for its
// data.
func (g *Graph) lock(devices []*Device, level checkLevel) (release func(), err error) {
	if g == nil {
		return nil, g.errorf(errNil, "the graph is nil")
	}
	if err := lock(&g.busy); err != nil {
		return nil, during(err, g.operand())
	}
	var undo cleanup
	defer undo.run()
	undo.add(g.busy.Unlock)
	if release, err = retainChecked(g.ctx.withDependencies()); err == nil {
		undo.add(release)
		err = g.findFault(devices, level)
	}
	if err != nil {
		return nil, during(err, g.operand())
	}
	undo.keep()
	return release, nil
}

func (g *Graph) operand() Operand {
	if g == nil {
		return Operand{Name: "nil"}
	}
	return Operand{Name: fmt.Sprintf("graph of %d nodes", g.NumNodes())}
}

// errorf returns an error about the graph.
func (g *Graph) errorf(cause error, format string, args ...any) error {
	return callError(cause, fmt.Sprintf(format, args...), g.operand())
}

// findFault runs the checks, except those whose results cannot have changed since the last time.
func (g *Graph) findFault(devices []*Device, level checkLevel) error {
	if g.g == nil {
		return g.errorf(nil, "the graph is empty; add tensors by Expand")
	}
	list := make([]C.ggml_backend_dev_t, len(devices))
	names := make([]string, len(devices))
	for i, d := range devices {
		if d.isZero() { // from a zero Backend
			return during(zeroError(), g.operand())
		}
		list[i], names[i] = d.d, d.Name()
	}
	c := C.goggml_graph_check(g.g, unsafe.SliceData(list), C.int(len(list)), C.bool(level >= checkAllocated), C.bool(level >= checkReady),
		&g.checked, unsafe.SliceData(g.indices), C.int(len(g.indices)))
	if c.fault != C.GOGGML_FAULT_NONE {
		return g.faultError(c, names)
	}
	if c.unchanged {
		return nil
	}
	g.checked = c.key
	if level >= checkReady {
		n := C.goggml_graph_row_indices(g.g, nil, 0)
		g.indices = slices.Grow(g.indices[:0], int(n))[:n]
		g.indices = g.indices[:C.goggml_graph_row_indices(g.g, unsafe.SliceData(g.indices), n)]
	}
	return nil
}

func (g *Graph) faultError(c C.goggml_check, devices []string) error {
	node := g.tensor(c.node)
	e := &OpError{Op: node.Op(), Caller: callerLine(), Operands: []Operand{node.operand()}}
	if c.operand != nil {
		e.Operands = append(e.Operands, g.tensor(c.operand).operand())
	}
	switch c.fault {
	case C.GOGGML_FAULT_UNALLOCATED:
		e.Err = ErrNotAllocated
		e.Reason = "the last of these has no memory; allocate its context, or the graph with a GraphAllocator or a Scheduler"
	case C.GOGGML_FAULT_INDEX:
		e.Reason = fmt.Sprintf("row index %d is out of range: there are %d rows", int64(c.value), int64(c.limit))
	case C.GOGGML_FAULT_OVERWRITTEN:
		e.Reason = "the graph overwrites these row indices in place; give the op the overwritten result, or a copy made with Dup"
	case C.GOGGML_FAULT_UNSUPPORTED:
		e.Reason = fmt.Sprintf("%s does not support this op on these types and shapes; use a Scheduler with a backend that does", strings.Join(devices, " or "))
		if c.refusal != nil {
			e.Reason = fmt.Sprintf("%s %s, or use a Scheduler with the CPU", strings.Join(devices, " or "), C.GoString(c.refusal))
		}
	case C.GOGGML_FAULT_REPACKED:
		e.Reason = "the last of these holds repacked weights: it can only be the first operand of mul_mat or mul_mat_id, on the CPU"
	case C.GOGGML_FAULT_BUFFER_UNREACHABLE:
		e.Reason = fmt.Sprintf("the last of these is in memory that %s cannot access; use a Scheduler, which copies it", devices[0])
	case C.GOGGML_FAULT_CUSTOM_NOT_HOST:
		e.Reason = "the CPU would compute this in place, but it is in memory of another device; give the op a copy made with Dup"
	}
	return e
}

// tensor returns the Tensor of a graph's C tensor, with its context. The caller retains it.
func (g *Graph) tensor(p *C.struct_ggml_tensor) *Tensor { return g.ctx.tensorAt(p) }
