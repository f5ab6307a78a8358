package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"unsafe"
)

// Measure returns the memory in bytes that the graph would take on each backend, in the order of
// Backends, without allocating it; memory shared by backends counts for the first. As in Reserve,
// the last graph becomes unallocated. C: ggml_backend_sched_reserve_size.
func (s *Scheduler) Measure(g *Graph) ([]int64, error) {
	s = made(s)
	sizes := make([]C.size_t, len(s.backends))
	err := s.allocate(g, reserveOnly, func() C.goggml_int { return s.sizes(g, sizes) })
	if err != nil {
		return nil, err
	}
	if err := s.h.acquire(); err != nil { // closed meanwhile
		return nil, err
	}
	defer s.h.release()
	bytes := make([]int64, len(sizes))
	seen := map[BufferType]bool{}
	for i, b := range s.backends {
		memory := BufferType{C.ggml_backend_sched_get_buffer_type(s.s, b.b)}
		if !seen[memory] {
			bytes[i] = int64(sizes[i])
		}
		seen[memory] = true
	}
	return bytes, nil
}

// sizes computes the memory on each backend of a graph that own has processed.
func (s *Scheduler) sizes(g *Graph, sizes []C.size_t) C.goggml_int {
	list := make([]C.ggml_backend_t, len(s.backends))
	for i, b := range s.backends {
		list[i] = b.b
	}
	// A scheduler that has measured can no longer allocate.
	scratch, err := s.options.newSched(list)
	if err != nil {
		return s.current.refuse(err)
	}
	defer func() { released(C.goggml_sched_free(scratch)) }()
	if e := s.assign(scratch, g); e != nil {
		return C.goggml_int{error: e}
	}
	owned, release := s.ownedNodes()
	defer release()
	return s.sources.keep(g, func() C.goggml_int {
		return C.goggml_int{value: 1, error: C.goggml_sched_measure(scratch, g.g, unsafe.SliceData(g.leaves), C.int(len(g.leaves)), owned, unsafe.SliceData(sizes))}
	})
}

// needs returns the memory that the graph would take, for a message; nil if unknown.
func (s *Scheduler) needs(g *Graph) []memoryUse {
	sizes := make([]C.size_t, len(s.backends))
	if r := s.sizes(g, sizes); guardError(r.error) != nil || r.value == 0 {
		s.current.refusal = nil
		return nil
	}
	var uses []memoryUse
	for i, b := range s.backends {
		uses = append(uses, memoryUse{device: b.device.d, bytes: int64(sizes[i])})
	}
	return uses
}

// SplitGraph assigns a backend to each node, as Allocate does, without allocating memory:
// afterwards TensorBackend and NumGraphSplits report the assignment. As in Reserve, the last graph
// becomes unallocated. C: ggml_backend_sched_split_graph.
func (s *Scheduler) SplitGraph(g *Graph) error {
	s = made(s)
	return s.allocate(g, reserveOnly, func() C.goggml_int {
		return s.sources.keep(g, func() C.goggml_int { return C.goggml_int{value: 1, error: C.goggml_sched_split(s.s, g.g)} })
	})
}
