package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"iter"
	"math"
)

// tensorAt returns the Tensor of a C tensor in c or its dependencies, which the caller retains.
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

// withRefs is withRef that also retains the contexts of the operands.
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
// ones. It returns none for a leaf, and none if one of their contexts is closed. C: src of struct
// ggml_tensor.
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

// Key returns the identity of the tensor, valid while its context is open: two *Tensor have equal
// keys if [Tensor.Is] reports that they are the same tensor.
func (t *Tensor) Key() TensorKey { return TensorKey{t.ptr()} }

// OpParams are the numeric parameters of an op, as ggml stores them: strides, an ε, a mode. Their
// meaning depends on the op. C: op_params of struct ggml_tensor.
type OpParams [C.GGML_MAX_OP_PARAMS / 4]int32

// Float32 returns number i as a float, if it is one. Like an array index, it panics if i is out of
// range.
func (p OpParams) Float32(i int) float32 { return math.Float32frombits(uint32(p[i])) }

// OpParams returns the numeric parameters of the op, all 0 for a leaf or if a context is closed.
func (t *Tensor) OpParams() OpParams {
	var p OpParams
	t.withRef(func() {
		for i := range p {
			p[i] = int32(t.t.op_params[i])
		}
	})
	return p
}

// ViewSource returns the tensor whose data a view shares: for a view of a view, the last source. It
// returns false if the tensor is not a view, or if a context that it depends on is closed. C: view_src
// of struct ggml_tensor.
func (t *Tensor) ViewSource() (source *Tensor, found bool) {
	t.withRefs(func() {
		if p := t.t.view_src; p != nil {
			source, found = t.ctx.tensorAt(p), true
		}
	})
	return source, found
}

// ViewOffset returns the offset in bytes of a view from the start of its [Tensor.ViewSource], 0 if
// the tensor is not a view. C: view_offs of struct ggml_tensor.
func (t *Tensor) ViewOffset() int64 {
	var n int64
	t.withRef(func() { n = int64(t.t.view_offs) })
	return n
}

// BufferType returns the memory in which the tensor lies, nil if unallocated. C: buffer of struct
// ggml_tensor.
func (t *Tensor) BufferType() *BufferType {
	var bt *BufferType
	t.withRefs(func() {
		if b := t.root().buffer; b != nil && bool(C.goggml_has_memory(t.t)) {
			bt = &BufferType{C.ggml_backend_buffer_get_type(b)}
		}
	})
	return bt
}

// HasExtra reports whether the device keeps data of its own with the tensor, once the tensor is
// placed. Plumbing: programs rarely need it. C: extra of struct ggml_tensor.
func (t *Tensor) HasExtra() bool {
	var yes bool
	t.withRef(func() { yes = t.t.extra != nil })
	return yes
}

// contents lists the tensors that the graph computes, and the tensors that it only reads; both
// lists are empty if one of their contexts is closed.
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

// Leaves iterates over the tensors that the graph reads and no op makes: inputs, parameters and
// constants, in the order of their first use; it yields none if one of their contexts is closed.
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

// Inputs iterates over the leaves marked by [Tensor.SetInput], which the caller writes before each
// compute.
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
