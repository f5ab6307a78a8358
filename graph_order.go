package ggml

// #include "csrc/goggml.h"
import "C"

// addedTensors holds tensors that are in a graph with all that they depend on.
// The value reports whether they are computed, or only put in order.
type addedTensors map[*C.struct_ggml_tensor]bool

// insertAll adds a tensor with all that it depends on, of which bound is an
// upper number. ggml does that by recursion, so where there may be much
// it is given the tensors one by one, each after its sources. What is in the
// graph is not looked at again: a graph that is built of many parts would take
// time in the square of their number.
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

// add records a tensor and its dependencies, and lists the new ones in the order in which ggml's
// recursion reaches them.
func (a addedTensors) add(t *C.struct_ggml_tensor, compute bool) []*C.struct_ggml_tensor {
	type visit struct {
		tensor *C.struct_ggml_tensor
		source int // the next one to look at
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
