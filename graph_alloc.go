package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"slices"
	"unsafe"
)

// A Placement says of which buffer type of a [GraphAllocator], counted from 0,
// each tensor of a graph is. What has memory already keeps it.
type Placement struct {
	Nodes  func(t *Tensor) int // of a node; nil for the first type
	Leaves int                 // of all leaves
}

// ReserveIn is [GraphAllocator.Reserve] with a placement, which Alloc keeps for
// graphs of the same nodes. Each type must be memory that the backend which
// computes can use. C: ggml_gallocr_reserve_n.
func (a *GraphAllocator) ReserveIn(g *Graph, p Placement) error {
	return a.placed(g, p, func(nodes, leaves *C.int) C.goggml_int {
		return a.current.replan(func() C.goggml_int { return C.goggml_gallocr_reserve_n(a.a, g.g, nodes, leaves) })
	})
}

// SizesFor tells how many bytes of each buffer type ReserveIn would take; a type
// that is given twice counts once. It takes the memory of the graph before away,
// as Reserve does.
// C: ggml_gallocr_reserve_n_size.
func (a *GraphAllocator) SizesFor(g *Graph, p Placement) ([]int64, error) {
	sizes := make([]C.size_t, len(a.types))
	err := a.placed(g, p, func(nodes, leaves *C.int) C.goggml_int {
		return C.goggml_gallocr_sizes(a.a, g.g, nodes, leaves, &sizes[0])
	})
	if err != nil {
		return nil, err
	}
	for i, bt := range a.types {
		if slices.ContainsFunc(a.types[:i], func(other *BufferType) bool { return other.b == bt.b }) {
			sizes[i] = 0 // the library repeats it
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

// Sizes are the sizes of the memory in bytes, of each buffer type; a type that
// is given twice counts once.
func (a *GraphAllocator) Sizes() []int64 {
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

// placed runs f with the number of the buffer type of each node and leaf.
func (a *GraphAllocator) placed(g *Graph, p Placement, f func(nodes, leaves *C.int) C.goggml_int) error {
	nodes, err := a.numbers(g, p)
	if err != nil {
		return err
	}
	return a.with(g, reserveOnly, func() C.goggml_int {
		if len(nodes) != int(C.ggml_graph_n_nodes(g.g)) {
			return a.current.refuse(errors.New("the graph has changed meanwhile"))
		}
		// The library has its own order of leaves, and no more than this.
		leaves := make([]C.int, C.ggml_graph_size(g.g))
		for i := range leaves {
			leaves[i] = C.int(p.Leaves)
		}
		a.current.plan = 0 // measuring replaces the library's, too
		return f(unsafe.SliceData(nodes), unsafe.SliceData(leaves))
	})
}

func (a *GraphAllocator) numbers(g *Graph, p Placement) (nodes []C.int, err error) {
	const op = "gallocr_reserve_n"
	if g == nil {
		return nil, g.errorf(op, nil, "the graph is nil")
	}
	known := func(i int) bool { return i >= 0 && i < len(a.types) }
	if !known(p.Leaves) {
		return nil, g.errorf(op, nil, "leaves in buffer type %d: the allocator has %d, counted from 0", p.Leaves, len(a.types))
	}
	for t := range g.Nodes() {
		i := 0
		if p.Nodes != nil {
			i = p.Nodes(t)
		}
		if !known(i) {
			return nil, t.errorf(op, nil, "in buffer type %d: the allocator has %d, counted from 0", i, len(a.types))
		}
		nodes = append(nodes, C.int(i))
	}
	return nodes, nil
}

// AllocationSize is how many bytes [Context.Allocate] would take.
// C: ggml_backend_alloc_ctx_tensors_from_buft_size.
func (c *Context) AllocationSize(bt *BufferType) (int64, error) {
	own, _, unpin, err := c.unallocated(bt)
	if err != nil {
		return 0, err
	}
	defer unpin()
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
