package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"unsafe"
)

// Measure reports how much memory in bytes the graph would take on each backend,
// in the order of Backends, and takes none; of backends with the same memory it
// counts for the first. As in Reserve, the graph before is
// not allocated any more. C: ggml_backend_sched_reserve_size.
func (s *Scheduler) Measure(g *Graph) ([]int64, error) {
	s = made(s)
	sizes := make([]C.size_t, len(s.backends))
	err := s.allocate(g, reserveOnly, func() C.goggml_int { return s.sizes(g, sizes) })
	if err != nil {
		return nil, err
	}
	if err := s.h.acquire(); err != nil { // it has been closed meanwhile
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

// sizes finds the memory that the graph, which own has seen, would take on each backend.
func (s *Scheduler) sizes(g *Graph, sizes []C.size_t) C.goggml_int {
	list := make([]C.ggml_backend_t, len(s.backends))
	for i, b := range s.backends {
		list[i] = b.b
	}
	// One that has measured cannot allocate any more.
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

// needs returns what the graph would take, for a message; nil if that cannot be found.
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

// SplitGraph chooses a backend for each node, as Allocate does, and takes no memory: afterwards
// TensorBackend and NumGraphSplits report its choice. As in Reserve, the graph before is not
// allocated any more. C: ggml_backend_sched_split_graph.
func (s *Scheduler) SplitGraph(g *Graph) error {
	s = made(s)
	return s.allocate(g, reserveOnly, func() C.goggml_int {
		return s.sources.keep(g, func() C.goggml_int { return C.goggml_int{value: 1, error: C.goggml_sched_split(s.s, g.g)} })
	})
}
