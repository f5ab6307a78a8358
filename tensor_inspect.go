package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"iter"
	"math"
)

// tensorAt finds the context of a C tensor among c and what it depends on. The
// caller holds them.
func (c *Context) tensorAt(p *C.struct_ggml_tensor) *Tensor {
	for _, owner := range c.withDependencies() {
		owner.mu.Lock()
		owns := bool(C.goggml_arena_owns(owner.arena, p))
		owner.mu.Unlock()
		if owns {
			return newTensor(owner, p)
		}
	}
	return newTensor(c, p)
}

// withRefs is withRef with the contexts of the operands retained too.
func (t *Tensor) withRefs(f func()) {
	if t == nil || t.t == nil {
		return
	}
	release, err := retain(t.ctx.withDependencies())
	if err != nil {
		return
	}
	defer release()
	f()
}

// Sources lists the operands of the op that makes the tensor, in order, without absent optional
// ones; none for a leaf, and none if one of their contexts is closed. C: src of struct ggml_tensor.
func (t *Tensor) Sources() []*Tensor {
	var sources []*Tensor
	t.withRefs(func() {
		for _, p := range t.t.src {
			if p != nil {
				sources = append(sources, t.ctx.tensorAt(p))
			}
		}
	})
	return sources
}

// A TensorKey is the identity of a tensor, for maps; see [Tensor.Key].
type TensorKey struct{ t *C.struct_ggml_tensor }

// Key identifies the tensor as long as its context is open: two *Tensor have equal keys if
// [Tensor.Is] says that they stand for the same tensor.
func (t *Tensor) Key() TensorKey { return TensorKey{t.ptr()} }

// OpParams are the numbers beside the operands of an op, as ggml keeps them: strides,
// an ε, a mode. What each of them means is the op's own affair.
// C: op_params of struct ggml_tensor.
type OpParams [C.GGML_MAX_OP_PARAMS / 4]int32

// Float32 is number i where that is a float. It panics as an index of the array does.
func (p OpParams) Float32(i int) float32 { return math.Float32frombits(uint32(p[i])) }

// OpParams returns the numbers that the op has beside its operands, all 0 for a leaf and
// where a context is closed.
func (t *Tensor) OpParams() OpParams {
	var p OpParams
	t.withRef(func() {
		for i := range p {
			p[i] = int32(t.t.op_params[i])
		}
	})
	return p
}

// ViewSource finds the tensor whose data a view shares: the one at the end,
// for a view of a view. There is none when the tensor is no view, and when a
// context it depends on is closed. C: view_src of struct ggml_tensor.
func (t *Tensor) ViewSource() (source *Tensor, found bool) {
	t.withRefs(func() {
		if p := t.t.view_src; p != nil {
			source, found = t.ctx.tensorAt(p), true
		}
	})
	return source, found
}

// ViewOffset is the distance in bytes from the start of [Tensor.ViewSource] to the start of a view,
// 0 if the tensor is no view.
// C: view_offs of struct ggml_tensor.
func (t *Tensor) ViewOffset() int64 {
	var n int64
	t.withRef(func() { n = int64(t.t.view_offs) })
	return n
}

// BufferType is the memory in which the tensor lies, nil when it has none.
// C: buffer of struct ggml_tensor.
func (t *Tensor) BufferType() *BufferType {
	var bt *BufferType
	t.withRefs(func() {
		if b := t.root().buffer; b != nil && bool(C.goggml_has_memory(t.t)) {
			bt = &BufferType{C.ggml_backend_buffer_get_type(b)}
		}
	})
	return bt
}

// HasExtra reports whether the device keeps data of its own with the tensor, once that is placed.
// Plumbing: programs rarely need it. C: extra of struct ggml_tensor.
func (t *Tensor) HasExtra() bool {
	var yes bool
	t.withRef(func() { yes = t.t.extra != nil })
	return yes
}

// contents lists the tensors that the graph computes, and those that it reads:
// both empty when a context they belong to is closed.
func (g *Graph) contents() (nodes, leaves []*Tensor) {
	if g == nil {
		return nil, nil
	}
	release, err := retain(g.ctx.withDependencies())
	if err != nil {
		return nil, nil
	}
	defer release()
	var list []*C.struct_ggml_tensor
	seen := map[*C.struct_ggml_tensor]bool{}
	add := func(p *C.struct_ggml_tensor) {
		if p != nil && p.op == C.GGML_OP_NONE && !seen[p] {
			seen[p] = true
			leaves = append(leaves, g.ctx.tensorAt(p))
		}
	}
	var expanded []*C.struct_ggml_tensor
	g.withRef(func() {
		for i := range int(C.ggml_graph_n_nodes(g.g)) {
			list = append(list, C.ggml_graph_node(g.g, C.int(i)))
		}
		expanded = append(expanded, g.leaves...)
	})
	for _, p := range list {
		if p.op != C.GGML_OP_NONE {
			nodes = append(nodes, g.ctx.tensorAt(p))
		}
		for _, source := range p.src {
			add(source)
		}
	}
	// ggml counts parameters among the nodes.
	for _, p := range append(list, expanded...) {
		add(p)
	}
	return nodes, leaves
}

// Leaves iterates over the tensors that the graph reads and no op makes: the
// inputs, parameters and constants, in the order of their first use; over none
// when a context they belong to is closed.
func (g *Graph) Leaves() iter.Seq[*Tensor] {
	return func(yield func(*Tensor) bool) {
		_, leaves := g.contents()
		for _, t := range leaves {
			if !yield(t) {
				return
			}
		}
	}
}

// Inputs iterates over the leaves that are marked by [Tensor.SetInput]: what
// the caller writes before each compute.
func (g *Graph) Inputs() iter.Seq[*Tensor] {
	return func(yield func(*Tensor) bool) {
		for t := range g.Leaves() {
			if t.flagged(C.GGML_TENSOR_FLAG_INPUT) && !yield(t) {
				return
			}
		}
	}
}

// flagged reports whether the tensor has the flag.
func (t *Tensor) flagged(flag C.int32_t) bool {
	var yes bool
	t.withRef(func() {
		t.ctx.mu.Lock()
		defer t.ctx.mu.Unlock()
		yes = t.t.flags&flag != 0
	})
	return yes
}
