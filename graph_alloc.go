package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// A GraphAllocator allocates the tensors of a graph, and reuses the memory of results that are no
// longer needed. Allocating another graph, or Close, makes the tensors of the last graph
// unallocated. It is safe for concurrent use. C: ggml_gallocr_t.
type GraphAllocator struct {
	h       *handle
	a       C.ggml_gallocr_t
	types   []*BufferType
	current *allocatorState
}

// NewGraphAllocator makes an allocator for memory of the buffer type. With several types, all
// tensors go to the first unless [GraphAllocator.ReserveIn] places them. C: ggml_gallocr_new,
// ggml_gallocr_new_n.
func NewGraphAllocator(types ...*BufferType) (*GraphAllocator, error) {
	if len(types) == 0 || slices.Contains(types, nil) {
		return nil, fmt.Errorf("ggml: graph allocator: a buffer type is nil, or none is given")
	}
	list := make([]C.ggml_backend_buffer_type_t, len(types))
	for i, bt := range types {
		if bt.isZero() {
			return nil, zeroError()
		}
		if bt.repacks() {
			return nil, fmt.Errorf("ggml: graph allocator: %s can hold only repacked weights, not results", bt.Name())
		}
		list[i] = bt.b
	}
	r := C.goggml_gallocr_new(&list[0], C.int(len(list)))
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: graph allocator: %w", err)
	}
	a := &GraphAllocator{a: C.ggml_gallocr_t(r.value), types: slices.Clone(types), current: &allocatorState{}}
	ca, current := a.a, a.current
	current.measure = func() []memoryUse {
		var uses []memoryUse
		for i, bt := range list {
			uses = append(uses, memoryUse{deviceOf(bt), UsageCompute, int64(C.ggml_gallocr_get_buffer_size(ca, C.int(i)))})
		}
		return uses
	}
	h, err := newHandle("graph allocator", func() {
		current.free()
		released(C.goggml_gallocr_free(ca))
	})
	if err != nil {
		return nil, err
	}
	a.h = h
	memory.track(h, current.measured)
	closeOnCollect(a, h)
	return a, nil
}

// Close frees the memory. It never fails. C: ggml_gallocr_free.
func (a *GraphAllocator) Close() error {
	if a != nil {
		a.h.close()
	}
	return nil
}

// Reserve reserves memory for a graph without allocating it. Reserve the largest graph, and no
// later Allocate takes more memory. C: ggml_gallocr_reserve.
func (a *GraphAllocator) Reserve(g *Graph) error {
	a = made(a)
	return a.with(g, reserveOnly, func() C.goggml_int {
		a.current.plan = 0 // the old plan may have had a placement
		return a.reserve(g)
	})
}

// Allocate allocates the graph's unallocated tensors. With several buffer types, a graph of the
// same nodes must have been reserved. C: ggml_gallocr_alloc_graph.
func (a *GraphAllocator) Allocate(g *Graph) error {
	a = made(a)
	return a.with(g, forCompute, func() C.goggml_int {
		if len(a.types) > 1 && a.current.plan != a.current.next {
			return a.current.refuse(errNotReserved)
		}
		if r := a.reserve(g); r.error != nil || r.value == 0 {
			return r
		}
		return C.goggml_gallocr_alloc(a.a, g.g)
	})
}

var errNotReserved = errors.New("the graph is not like the one that was reserved; call Reserve or ReserveIn with it first")

func (a *GraphAllocator) reserve(g *Graph) C.goggml_int {
	return a.current.replan(func() C.goggml_int { return C.goggml_gallocr_reserve(a.a, g.g) })
}

func (a *GraphAllocator) with(g *Graph, p purpose, f func() C.goggml_int) error {
	if err := a.h.acquire(); err != nil {
		return during(err, g.operand())
	}
	defer a.h.release()
	return a.current.allocate(g, p, nil, a.h, a, f)
}

// Size returns the memory of all buffer types in bytes. C: ggml_gallocr_get_buffer_size.
func (a *GraphAllocator) Size() int64 {
	a = made(a)
	var n int64
	for _, size := range a.Sizes() {
		n += size
	}
	return n
}

// A Placement assigns each tensor of a graph to a buffer type of a [GraphAllocator], counted from
// 0. Allocated tensors stay in their memory. Plumbing: programs rarely need it.
type Placement struct {
	Nodes  func(t *Tensor) int // buffer type of a node; nil means the first type for all
	Leaves int                 // buffer type of all leaves
}

// ReserveIn is [GraphAllocator.Reserve] with a placement, which Allocate keeps for graphs of the
// same nodes. The backend that computes must be able to use memory of each type. Plumbing: programs
// rarely need it. C: ggml_gallocr_reserve_n.
func (a *GraphAllocator) ReserveIn(g *Graph, p Placement) error {
	a = made(a)
	return a.placed(g, p, func(nodes, leaves *C.int) C.goggml_int {
		return a.current.replan(func() C.goggml_int { return C.goggml_gallocr_reserve_n(a.a, g.g, nodes, leaves) })
	})
}

// SizesFor returns the bytes of each buffer type that ReserveIn would take; a type given twice
// counts once. Like Reserve, it makes the tensors of the last graph unallocated. Plumbing: programs
// rarely need it. C: ggml_gallocr_reserve_n_size.
func (a *GraphAllocator) SizesFor(g *Graph, p Placement) ([]int64, error) {
	a = made(a)
	sizes := make([]C.size_t, len(a.types))
	err := a.placed(g, p, func(nodes, leaves *C.int) C.goggml_int {
		return C.goggml_gallocr_sizes(a.a, g.g, nodes, leaves, &sizes[0])
	})
	if err != nil {
		return nil, err
	}
	for i, bt := range a.types {
		if slices.ContainsFunc(a.types[:i], func(other *BufferType) bool { return other.b == bt.b }) {
			sizes[i] = 0 // ggml counts a shared buffer type twice
		}
	}
	return asInt64s(sizes), nil
}

func asInt64s(sizes []C.size_t) []int64 {
	list := make([]int64, len(sizes))
	for i, n := range sizes {
		list[i] = int64(n)
	}
	return list
}

// Sizes returns the memory in bytes of each buffer type; a type given twice counts once.
func (a *GraphAllocator) Sizes() []int64 {
	a = made(a)
	sizes := make([]C.size_t, len(a.types))
	if a.h.acquire() == nil {
		defer a.h.release()
		a.current.mu.Lock()
		defer a.current.mu.Unlock()
		for i := range sizes {
			sizes[i] = C.ggml_gallocr_get_buffer_size(a.a, C.int(i))
		}
	}
	return asInt64s(sizes)
}

// placed runs f with the buffer type's number of each node and leaf.
func (a *GraphAllocator) placed(g *Graph, p Placement, f func(nodes, leaves *C.int) C.goggml_int) error {
	nodes, err := a.numbers(g, p)
	if err != nil {
		return err
	}
	return a.with(g, reserveOnly, func() C.goggml_int {
		if len(nodes) != int(C.ggml_graph_n_nodes(g.g)) {
			return a.current.refuse(errors.New("the graph has changed meanwhile"))
		}
		// ggml has its own order of leaves, and at most this number.
		leaves := make([]C.int, C.ggml_graph_size(g.g))
		for i := range leaves {
			leaves[i] = C.int(p.Leaves)
		}
		a.current.plan = 0 // measuring also replaces ggml's plan
		return f(unsafe.SliceData(nodes), unsafe.SliceData(leaves))
	})
}

func (a *GraphAllocator) numbers(g *Graph, p Placement) (nodes []C.int, err error) {
	if g == nil {
		return nil, g.errorf(errNil, "the graph is nil")
	}
	if err := a.h.acquire(); err != nil {
		return nil, during(err, g.operand())
	}
	defer a.h.release()
	known := func(i int) bool { return i >= 0 && i < len(a.types) }
	if !known(p.Leaves) {
		return nil, g.errorf(nil, "leaves in buffer type %d: the allocator has %d, counted from 0", p.Leaves, len(a.types))
	}
	for t := range g.Nodes() {
		i := 0
		if p.Nodes != nil {
			i = p.Nodes(t)
		}
		if !known(i) {
			return nil, t.errorf(nil, "in buffer type %d: the allocator has %d, counted from 0", i, len(a.types))
		}
		nodes = append(nodes, C.int(i))
	}
	return nodes, nil
}

// needs returns the memory that the graph would take, for a message; nil if its placement is
// unknown.
func (a *GraphAllocator) needs(g *Graph) []memoryUse {
	if len(a.types) > 1 {
		return nil
	}
	scratch := C.goggml_gallocr_new(&a.types[0].b, 1) // keeps the plan of this allocator
	if guardError(scratch.error) != nil {
		return nil
	}
	defer func() { released(C.goggml_gallocr_free(C.ggml_gallocr_t(scratch.value))) }()
	var size C.size_t
	if guardError(C.goggml_gallocr_sizes(C.ggml_gallocr_t(scratch.value), g.g, nil, nil, &size).error) != nil {
		return nil
	}
	return []memoryUse{{device: deviceOf(a.types[0].b), bytes: int64(size)}}
}

// AllocSize returns the bytes that [Context.Allocate] would take. C:
// ggml_backend_alloc_ctx_tensors_from_buft_size.
func (c *Context) AllocSize(bt *BufferType) (int64, error) {
	own, _, release, err := c.unallocated(bt)
	if err != nil {
		return 0, err
	}
	defer release()
	var total int64
	for len(own) > 0 {
		n, size, err := fitting(own, bt)
		if err != nil {
			return 0, err
		}
		total, own = total+size, own[n:]
	}
	return total, nil
}
