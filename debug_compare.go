package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"
)

// CopyTo copies an allocated graph to memory of the backend: its tensors, with their order, names
// and data. The copy has a context of its own, Graph.Context: close it, and close the buffer that
// holds the data. No results of the copy share memory, so all can be read. The copy has no
// gradients. The context of a [CustomFunc] stays open for the copy. C: ggml_backend_graph_copy;
// Context.Close and Buffer.Close stand for ggml_backend_graph_copy_free.
func (g *Graph) CopyTo(b *Backend) (*Graph, *Buffer, error) {
	g = made(g)
	release, err := g.check(nil, checkAllocated)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	if b == nil {
		return nil, nil, g.errorf(errNil, "the backend is nil")
	}
	if err := g.copyable(); err != nil {
		return nil, nil, err
	}
	leave, err := enter(b.h, &b.mu)
	if err != nil {
		return nil, nil, during(err, g.operand())
	}
	defer leave()
	r := C.goggml_copy_graph_to(b.b, g.g)
	if err := guardError(r.error); err != nil {
		return nil, nil, g.errorf(nil, "%v", err)
	}
	if r.graph == nil {
		return nil, nil, g.errorf(ErrOutOfMemory, "there is no memory for a copy on %s", b.Name())
	}
	if err := g.lostOf(b); err != nil { // lost data reads as zeros
		released(C.goggml_buffer_free(r.buffer))
		newContext(r.arena, C.goggml_arena_new()).Close()
		return nil, nil, g.errorf(err, "%v", err)
	}
	c := newContext(r.arena, C.goggml_arena_new())
	if err := c.Err(); err != nil {
		released(C.goggml_buffer_free(r.buffer))
		return nil, nil, during(err, g.operand())
	}
	buf, err := newBuffer(r.buffer, nil)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	// The memory may consist of several buffers. The tensors refer to them, the context does not.
	core, free := c.contextCore, buf.h.free
	buf.h.free = func() {
		core.detach(nil)
		free()
	}
	c.attach(buf)
	// ggml's copy of the graph has no leaves; allocators count on them.
	whole := C.goggml_graph_rebuild(c.graphs, r.graph)
	if err := guardError(whole.error); err != nil {
		c.Close()
		buf.Close()
		return nil, nil, g.errorf(nil, "%v", err)
	}
	copied := &Graph{ctx: c, g: (*C.struct_ggml_cgraph)(whole.value)}
	copied.copyCustoms(g)
	return copied, buf, nil
}

// lostOf returns an error if a device of the graph's data, or of the backend, is gone.
func (g *Graph) lostOf(b *Backend) error {
	devices := []C.ggml_backend_dev_t{b.device.d}
	add := func(t *C.struct_ggml_tensor) {
		if t == nil {
			return
		}
		if d := (&Tensor{t: t}).memoryDevice(); d != nil && !slices.Contains(devices, d) {
			devices = append(devices, d)
		}
	}
	for i := range C.ggml_graph_n_nodes(g.g) {
		node := C.ggml_graph_node(g.g, i)
		add(node)
		for _, source := range node.src {
			add(source)
		}
	}
	return deviceErr(devices...)
}

// copyable returns why the data of the retained graph cannot be copied, or nil.
func (g *Graph) copyable() error {
	var i C.int
	node := C.goggml_graph_next_repacked(g.g, &i)
	if node == nil {
		return nil
	}
	return g.tensor(C.goggml_repacked_operand(node)).errorf(nil, "repacked weights cannot be copied")
}

// copyCustoms copies the Go functions of the nodes.
func (g *Graph) copyCustoms(from *Graph) {
	var i C.int
	for {
		node := C.goggml_graph_next_custom(from.g, &i)
		if node == nil {
			return
		}
		op := from.customOp(node)
		if op == nil {
			continue
		}
		if g.ctx.customs == nil {
			g.ctx.customs = map[*C.struct_ggml_tensor]*customOp{}
		}
		g.ctx.customs[C.ggml_graph_node(g.g, i-1)] = op
		g.ctx.addDep(from.ctx) // keeps the function alive
	}
}

// CompareOptions are the settings of [Graph.CompareBackends].
type CompareOptions struct {
	First, Second *Backend // First computes the graph itself, Second a copy in its own memory

	// Compare receives the number of a node and the results of both backends. An error, or a panic
	// (as a [*PanicError]), ends the comparison and is returned. The rules for functions of
	// [Scheduler.SetEvalCallback] apply.
	Compare func(node int, first, second *Tensor) error
}

// CompareBackends computes the graph, which must be allocated and supported by both devices, on two
// backends, and compares the results of its nodes.
//
// If no nodes are given, both backends compute node by node, and Compare receives each node except
// views directly after its computation. The first difference thus shows the op that causes it. Both
// tensors can be read until Compare returns. If nodes are given, the backends compute the whole
// graph and Compare then receives these nodes, which must be marked by [Tensor.SetOutput]. C:
// ggml_backend_compare_graph_backend.
func (g *Graph) CompareBackends(ctx context.Context, options CompareOptions, nodes ...*Tensor) error {
	first, second := options.First, options.Second
	if first == nil || second == nil || options.Compare == nil || first == second {
		return g.errorf(nil, "give two backends and a function")
	}
	release, err := g.check([]*Device{second.device}, checkBuilt)
	if err != nil {
		return err
	}
	release()
	if release, err = g.check([]*Device{first.device}, checkReady); err != nil {
		return err
	}
	defer release()
	if err := g.copyable(); err != nil {
		return err
	}
	list := make([]*C.struct_ggml_tensor, len(nodes))
	for i, t := range nodes {
		if err := t.missing(); err != nil {
			return err
		}
		if list[i] = t.t; !g.has(t) {
			return t.errorf(nil, "the tensor is not a node of the graph")
		}
	}
	both := []*Backend{first, second}
	c := &comparison{ctx: ctx, graph: g, f: options.Compare, steps: len(nodes) == 0, run: &computation{backends: both, calls: true}}
	id := comparisons.add(c)
	defer comparisons.remove(id)
	what := &C.goggml_comparison{first: first.b, second: second.b, id: C.uintptr_t(id), nodes: unsafe.SliceData(list), n_nodes: C.int(len(list))}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(what)
	if len(list) > 0 {
		pinner.Pin(&list[0])
	}
	err = g.compute(ctx, c.run, func() (int64, error) {
		done, err := runOn(both, C.goggml_compare, unsafe.Pointer(what), unsafe.Pointer(g.g))
		if err == nil && done == 0 {
			return C.GGML_STATUS_ALLOC_FAILED, nil
		}
		return C.GGML_STATUS_SUCCESS, err
	})
	if err == nil {
		err = c.err
	}
	if err == nil {
		err = context.Cause(ctx) // later results are not compared
	}
	return err
}

func (g *Graph) has(t *Tensor) bool {
	for i := range int(C.ggml_graph_n_nodes(g.g)) {
		if C.ggml_graph_node(g.g, C.int(i)) == t.t {
			return true
		}
	}
	return false
}

type comparison struct {
	ctx   context.Context
	graph *Graph
	run   *computation
	f     func(int, *Tensor, *Tensor) error
	steps bool // node by node
	err   error
}

var comparisons callbackTable[comparison]

//export goggmlCompare
func goggmlCompare(id C.uintptr_t, i C.int, a, b *C.struct_ggml_tensor, slot *C.uintptr_t) C.bool {
	c := comparisons.find(uintptr(id))
	if c == nil || c.err != nil || c.ctx.Err() != nil {
		return false
	}
	defer c.run.enter(slot)()
	// The copy lives in a context outside this package; this one ends with the call.
	scratch := NewContext()
	defer scratch.Close()
	ta, tb := c.graph.tensor(a), newTensor(scratch, b)
	ta.observed, tb.observed = &atomic.Bool{}, &atomic.Bool{}
	ta.observed.Store(c.steps)
	tb.observed.Store(true)
	defer ta.observed.Store(false)
	if err := protect(func() error { return c.f(int(i), ta, tb) }); err != nil {
		c.err = &OpError{Op: ta.Op(), Operands: []Operand{ta.operand()}, Reason: fmt.Sprintf("node %d: %v", int(i), err), Caller: callerLine(), Err: err}
		return false
	}
	return true
}
