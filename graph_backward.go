package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// Backward adds to a training graph the gradients of its loss (see [Tensor.SetLoss]; one F32
// number) with respect to its parameters (see [Tensor.SetParam]). Grad returns them. An op without
// a backward is an error. C: ggml_build_backward_expand.
func (g *Graph) Backward() error {
	g = made(g)
	release, err := g.check(nil, checkBuilt)
	if err != nil {
		return err
	}
	defer release()
	if err := g.trainable(); err != nil {
		return err
	}
	g.ctx.mu.Lock()
	defer g.ctx.mu.Unlock()
	g.backward = true
	r := C.goggml_graph_backward(g.ctx.arena, g.ctx.graphs, g.g, unsafe.SliceData(g.leaves), C.int(len(g.leaves)))
	if err := guardError(r.error); err != nil {
		n := int(C.ggml_graph_n_nodes(g.g))
		g.ctx.err = callError(nil, noBackward(err), Operand{Name: fmt.Sprintf("graph of %d nodes", n)})
		return g.ctx.err
	}
	g.g = (*C.struct_ggml_cgraph)(r.value)
	return nil
}

// noBackward explains an assertion of ggml that this package's checks do not foresee.
func noBackward(err error) string {
	if !strings.Contains(err.Error(), "GGML_ASSERT") {
		return err.Error()
	}
	return fmt.Sprintf("an op has no backward for the types or shapes of its operands; train in f32, and give it operands of the shape of its result by Repeat (%v)", err)
}

// trainable returns why Backward cannot run on the graph, or nil.
func (g *Graph) trainable() error {
	if !g.grads {
		return g.errorf(nil, "the graph has no room for gradients; make it with NewTrainingGraph")
	}
	if g.backward {
		return g.errorf(nil, "the graph has its gradients already")
	}
	flags := C.goggml_graph_find_flags(g.g)
	if flags.loss == nil {
		return g.errorf(nil, "no tensor of the graph is marked as the loss; call SetLoss")
	}
	if loss := g.tensor(flags.loss); loss.typ != F32 || loss.NumElements() != 1 {
		return loss.errorf(nil, "the loss must be a single f32 number; call Sum")
	}
	if !bool(flags.params) {
		return g.errorf(nil, "no tensor of the graph is marked as a parameter; call SetParam")
	}
	return g.derivable()
}

// derivable reports ops without a backward between the parameters and the loss, with their
// operands; ggml's assertion would name neither.
func (g *Graph) derivable() error {
	needed := map[*C.struct_ggml_tensor]bool{}
	for i := range int(C.ggml_graph_n_nodes(g.g)) {
		node := C.ggml_graph_node(g.g, C.int(i))
		needs := node.flags&(C.GGML_TENSOR_FLAG_PARAM|C.GGML_TENSOR_FLAG_LOSS) != 0
		for s, src := range node.src {
			needs = needs || src != nil && needed[src] && bool(C.goggml_propagates_requires_grad(node, C.int(s)))
		}
		if !needs || node._type == C.GGML_TYPE_I32 {
			continue
		}
		needed[node] = true
		switch {
		case bool(C.goggml_lacks_backward(node)):
			return g.tensor(node).errorf(nil, "%s", withoutBackward(node))
		case node.op == C.GGML_OP_VIEW && g.scattered(node):
			return g.tensor(node).errorf(nil, "a view has a backward only if its operand is contiguous and its elements share no memory; call Cont")
		case bool(C.goggml_is_inplace(node)):
			return g.tensor(node).errorf(nil, "this op works in place, and so has no backward")
		}
	}
	return g.sourcesReached(needed)
}

func withoutBackward(node *C.struct_ggml_tensor) string {
	const why = "this op has no backward"
	if node.op == C.GGML_OP_UNARY {
		return why + "; among the activations Relu, Silu and Softplus have one"
	}
	return why
}

// scattered reports whether ggml's backward of a view would put the gradient in the wrong place.
func (g *Graph) scattered(view *C.struct_ggml_tensor) bool {
	return !bool(C.goggml_has_layout(view.src[0], C.GOGGML_CANONICAL_STRIDES)) || newTensor(g.ctx, view).overlaps()
}

// sourcesReached reports operands that are trained but get no gradient, neither from an op that
// passes gradients on nor from a later op: ggml would crash.
func (g *Graph) sourcesReached(needed map[*C.struct_ggml_tensor]bool) error {
	reached := map[*C.struct_ggml_tensor]bool{}
	for i := int(C.ggml_graph_n_nodes(g.g)) - 1; i >= 0; i-- {
		node := C.ggml_graph_node(g.g, C.int(i))
		if node.flags&C.GGML_TENSOR_FLAG_LOSS != 0 {
			reached[node] = true
		}
		if !reached[node] || !needed[node] {
			continue
		}
		for s, src := range node.src {
			if bool(C.goggml_has_grad_for(node, C.int(s))) {
				reached[src] = true
			} else if needed[src] && !reached[src] {
				return g.tensor(node).errorf(nil, "%s", gradientless(node, s))
			}
		}
	}
	return nil
}

// gradientless returns why an op gives no gradient to operand s, or "".
func gradientless(node *C.struct_ggml_tensor, s int) string {
	switch {
	case node.op == C.GGML_OP_IM2COL && s == 0:
		return "the kernel is a parameter, but no later op uses its values"
	case node.op == C.GGML_OP_CPY && s == 1:
		return "the parameter is overwritten by the copy, so that it has no gradient"
	}
	return fmt.Sprintf("operand %d is trained, but this op has no backward for it, nor does a later one use it", s)
}

// Reset sets the gradient of the loss to 1, and accumulated gradients to 0; the moments of an
// optimizer stay. The graph must be allocated. A compute may overwrite the gradient of the loss:
// call Reset before each. [Graph.ResetAll] also resets the moments.
func (g *Graph) Reset() error {
	g = made(g)
	return g.reset(func() *C.char { return C.goggml_graph_reset(g.g) })
}

// ResetAll is Reset, and also sets the moments of the graph's AdamW steps to 0 to restart an
// optimization. C: ggml_graph_reset.
func (g *Graph) ResetAll() error {
	g = made(g)
	return g.reset(func() *C.char { return C.goggml_graph_reset_all(g.g) })
}

func (g *Graph) reset(f func() *C.char) error {
	release, err := g.check(nil, checkAllocated)
	if err != nil {
		return err
	}
	defer release()
	if !g.backward {
		return g.errorf(nil, "the graph has no gradients; call Backward first")
	}
	if err := guardError(f()); err != nil {
		return g.errorf(nil, "%v", err)
	}
	return nil
}

// Grad returns the gradient of a tensor, if there is one. C: ggml_graph_get_grad.
func (g *Graph) Grad(t *Tensor) (*Tensor, bool) {
	return g.gradient(t, func(p *C.struct_ggml_tensor) *C.struct_ggml_tensor { return C.ggml_graph_get_grad(g.g, p) })
}

// GradAcc returns a tensor's gradient accumulated over several computes. The loss has one, and so
// have parameters whose gradients an optimizer accumulates. C: ggml_graph_get_grad_acc.
func (g *Graph) GradAcc(t *Tensor) (*Tensor, bool) {
	return g.gradient(t, func(p *C.struct_ggml_tensor) *C.struct_ggml_tensor { return C.ggml_graph_get_grad_acc(g.g, p) })
}

func (g *Graph) gradient(t *Tensor, get func(p *C.struct_ggml_tensor) *C.struct_ggml_tensor) (*Tensor, bool) {
	if g == nil || !g.grads || t.ptr() == nil {
		return nil, false
	}
	release, err := retain(append(g.ctx.withDependencies(), t.ctx))
	if err != nil {
		return nil, false
	}
	defer release()
	var p *C.struct_ggml_tensor
	g.withRef(func() {
		if g.backward { // without Backward, a cleared graph still has old gradients
			p = get(t.t)
		}
	})
	if p == nil {
		return nil, false
	}
	return g.tensor(p), true
}
