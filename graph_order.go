package ggml

// #include "csrc/goggml.h"
import "C"

// addedTensors is the set of tensors that are in a graph with all their dependencies. The value
// reports whether they are computed, or only ordered.
type addedTensors map[*C.struct_ggml_tensor]bool

// insertAll adds a tensor with its dependencies; bound is an upper bound of their number. ggml adds
// them by recursion, so if the recursion may be deep, ggml is given the tensors one by one, each
// after its sources. Tensors already in the graph are skipped: otherwise building a graph of many
// parts would take quadratic time.
func (g *Graph) insertAll(t *C.struct_ggml_tensor, bound int, compute bool) error {
	const shallow = 2000 // fits the smallest stack of a thread
	list := []*C.struct_ggml_tensor{t}
	if bound > shallow {
		if g.added == nil {
			g.added = addedTensors{}
		}
		list = g.added.add(t, compute)
	}
	if len(list) == 0 {
		return nil
	}
	return guardError(C.goggml_graph_expand(g.g, &list[0], C.size_t(len(list)), C.bool(compute)))
}

// add records a tensor and its dependencies, and lists the new ones in the order of ggml's
// recursion.
func (a addedTensors) add(t *C.struct_ggml_tensor, compute bool) []*C.struct_ggml_tensor {
	type visit struct {
		tensor *C.struct_ggml_tensor
		source int // index of the next source to visit
	}
	var stack []visit
	enter := func(t *C.struct_ggml_tensor) {
		if computed, ok := a[t]; !ok || compute && !computed {
			a[t] = compute
			stack = append(stack, visit{t, 0})
		}
	}
	var list []*C.struct_ggml_tensor
	for enter(t); len(stack) > 0; {
		top := &stack[len(stack)-1]
		if top.source == len(top.tensor.src) {
			list = append(list, top.tensor)
			stack = stack[:len(stack)-1]
			continue
		}
		source := top.tensor.src[top.source]
		top.source++
		if source != nil {
			enter(source)
		}
	}
	return list
}
