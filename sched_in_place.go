package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"runtime"
	"slices"
	"unsafe"
)

// An ownership assigns a backend to a result that other nodes change in place. ggml places these
// nodes on any device, although each writes to the memory of the result, which another device
// cannot access.
type ownership struct {
	result  *C.struct_ggml_tensor
	changes []*C.struct_ggml_tensor
	backend C.ggml_backend_t // nil if ggml already places them in one memory
}

// own finds the results that must be assigned to the backend of the ops that change them, by
// splitting the graph as ggml would.
func (s *Scheduler) own(g *Graph) *C.char {
	s.owned = changedInPlace(g)
	if len(s.owned) == 0 || len(s.backends) == 1 {
		return nil
	}
	for range len(s.owned) { // each round assigns at least one
		r := s.sources.keep(g, func() C.goggml_int { return C.goggml_int{value: 1, error: C.goggml_sched_split(s.s, g.g)} })
		if r.error != nil {
			return r.error
		}
		done := true
		for _, o := range s.owned {
			if o.backend == nil && !s.inOneMemory(o) {
				o.backend, done = s.owner(o), false
			}
		}
		if e := C.goggml_sched_reset(s.s); e != nil {
			return e
		}
		if e := s.assign(s.s, g); e != nil || done {
			return e
		}
	}
	return nil
}

// changedInPlace lists the unallocated results of a graph that nodes change in place.
func changedInPlace(g *Graph) []*ownership {
	var list []*ownership
	found := map[*C.struct_ggml_tensor]*ownership{}
	var i C.int
	for node := C.goggml_graph_next_in_place(g.g, &i); node != nil; node = C.goggml_graph_next_in_place(g.g, &i) {
		o := found[node.view_src]
		if o == nil {
			o = &ownership{result: node.view_src}
			found[node.view_src], list = o, append(list, o)
		}
		o.changes = append(o.changes, node)
	}
	return list
}

func (s *Scheduler) inOneMemory(o *ownership) bool {
	memory := func(t *C.struct_ggml_tensor) C.ggml_backend_buffer_type_t {
		b := C.ggml_backend_sched_get_tensor_backend(s.s, t)
		if b == nil {
			return nil
		}
		return C.ggml_backend_sched_get_buffer_type(s.s, b)
	}
	own := memory(o.result)
	return !slices.ContainsFunc(o.changes, func(t *C.struct_ggml_tensor) bool { return memory(t) != own })
}

// owner returns the backend of the result if it supports all of the changes, else the first backend
// that does.
func (s *Scheduler) owner(o *ownership) C.ggml_backend_t {
	backends := []C.ggml_backend_t{C.ggml_backend_sched_get_tensor_backend(s.s, o.result)}
	for _, b := range s.backends {
		backends = append(backends, b.b)
	}
	for _, b := range backends {
		unsupported := func(t *C.struct_ggml_tensor) bool { return !bool(C.goggml_supports(C.ggml_backend_get_device(b), t)) }
		if b != nil && !unsupported(o.result) && !slices.ContainsFunc(o.changes, unsupported) {
			return b
		}
	}
	return backends[len(backends)-1] // the CPU
}

// assignOwned makes the assignments that own has found.
func (s *Scheduler) assignOwned(sched C.ggml_backend_sched_t) *C.char {
	for _, o := range s.owned {
		if o.backend == nil {
			continue
		}
		for _, t := range append(o.changes, o.result) {
			if e := C.goggml_sched_set_tensor_backend(sched, t, o.backend); e != nil {
				return e
			}
		}
	}
	return nil
}

// ownedNodes passes the results of own to C, until release.
func (s *Scheduler) ownedNodes() (c C.goggml_owned, release func()) {
	var nodes []*C.struct_ggml_tensor
	var backends []C.ggml_backend_t
	for _, o := range s.owned {
		for _, t := range append(o.changes, o.result) {
			if o.backend != nil && t.op != C.GGML_OP_NONE {
				nodes, backends = append(nodes, t), append(backends, o.backend)
			}
		}
	}
	pinner := &runtime.Pinner{}
	if c.n = C.int(len(nodes)); c.n > 0 {
		c.nodes, c.backends = unsafe.SliceData(nodes), unsafe.SliceData(backends)
		pinner.Pin(c.nodes)
		pinner.Pin(c.backends)
	}
	return c, pinner.Unpin
}
