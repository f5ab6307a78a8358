package nn

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/layout"
)

// A Value is a result in a graph, and its gradient once the backward pass has
// reached it.
type Value struct {
	T         *ggml.Tensor
	needsGrad bool         // T depends on something that is trained
	grad      *ggml.Tensor // sum of the gradients so far, without products
	products  []Product    // pending terms Wᵀ·dy of the gradient
	multiply  *Lowering    // lowering of the products
	low       *ggml.Tensor // T in the compute type; nil until it is needed
	lowBy     *Lowering    // lowering that chose the type of low
}

// A Tape builds a graph forwards and records a backward step for each op: its
// vector-Jacobian product, built from ops in the same graph. ggml has an automatic
// backward too, but it multiplies by a slow op, refuses some weight types, and cannot
// recompute. Tests check this one against it and against central differences.
//
// It is used by one goroutine.
type Tape struct {
	C        *ggml.Context
	Graph    *ggml.Graph
	Lowering *Lowering // builds the next ops
	Layers   Lowerings // the lowering of each layer; nil: Lowering
	Inputs   *Inputs
	// Grads are the gradient accumulators of the trained tensors, each of its tensor's
	// shape. nil builds no backward pass.
	Grads     map[*ggml.Tensor]*ggml.Tensor
	Adapters  Adapters       // change matrices; nil: none
	Mixed     int            // number of adapters of [Mix] if each token uses one of them; 0: each token uses all pairs
	Dropout   *Dropout       // of the input of trained adapters; nil: none
	Copies    Copies         // low-precision copies of frozen matrices; nil: none
	Recompute *Recomputation // what checkpoints keep; nil: everything

	steps  *backwardSteps
	noGrad bool
	column int64       // column in the batch of a chunk's first token
	memo   *memoCursor // results of a checkpointed function that are kept; nil: all are
	shown  *exposures  // of a checkpointed function
}

// backwardSteps are in the order in which they were recorded.
type backwardSteps struct{ list []func() }

// Input returns a value without a gradient.
func Input(x *ggml.Tensor) *Value { return &Value{T: x} }

// Training reports whether the tape records gradients.
func (t *Tape) Training() bool { return t.Grads != nil && !t.noGrad }

// Trains reports whether a tensor has a gradient accumulator.
func (t *Tape) Trains(w *ggml.Tensor) bool {
	_, ok := t.Grads[w]
	return ok
}

// On returns the tape with the lowering for a kind of weight of a layer, see [Lowerings].
func (t *Tape) On(layer int, kind layout.Kind) *Tape {
	if t.Layers == nil {
		return t
	}
	of := t.Layers(layer, kind)
	if of == t.Lowering {
		return t
	}
	t.recorded() // allocates the steps, so that both tapes share them
	return t.By(of)
}

// By returns the tape with another lowering.
func (t *Tape) By(l *Lowering) *Tape {
	by := *t
	by.Lowering = l
	return &by
}

// of returns the tape with the lowering for a matrix.
func (t *Tape) of(m Matrix) *Tape {
	if m.Kind == "" {
		return t
	}
	return t.On(m.Layer, m.Kind)
}

// fork returns a tape of the same graph with its own steps.
func (t *Tape) fork() *Tape {
	f := *t
	f.steps = nil
	return &f
}

// recorded returns the backward steps so far.
func (t *Tape) recorded() *backwardSteps {
	if t.steps == nil {
		t.steps = &backwardSteps{}
	}
	return t.steps
}

// at returns a tape for a chunk of the batch's tokens.
func (t *Tape) at(r columnRange) *Tape {
	part := t.fork()
	part.column += r.from
	return part
}

// record adds a backward step; y is its result.
func (t *Tape) record(y *Value, back func(dy *ggml.Tensor)) {
	if !y.needsGrad {
		return
	}
	y.T = t.keepable(y.T)
	if !t.Training() {
		return
	}
	t.step(func() {
		if dy := t.gradient(y); dy != nil {
			back(dy)
		}
	})
}

// step adds a backward step.
func (t *Tape) step(back func()) {
	steps := t.recorded()
	steps.list = append(steps.list, back)
}

// Backward runs the steps from the last to the first.
func (t *Tape) Backward() {
	steps := t.recorded()
	for i := len(steps.list) - 1; i >= 0; i-- {
		steps.list[i]()
	}
	steps.list = nil
}

// flow adds a contribution to the gradient of x.
func (t *Tape) flow(x *Value, dx func() *ggml.Tensor) {
	if x.needsGrad {
		t.addTo(x, dx())
	}
}

func (t *Tape) addTo(x *Value, d *ggml.Tensor) {
	if x.grad != nil {
		d = t.C.Add(x.grad, d)
	}
	x.grad = d
}

// flowProduct adds Wᵀ·dy, the gradient of x in a product W·x whose gradient is dy. One op sums all
// products of x that one lowering multiplies.
func (t *Tape) flowProduct(x *Value, p Product) {
	if !x.needsGrad {
		return
	}
	if x.multiply != t.Lowering {
		t.gradient(x)
	}
	x.products, x.multiply = append(x.products, p), t.Lowering
}

// gradient returns the sum of the gradients of x so far, or nil.
func (t *Tape) gradient(x *Value) *ggml.Tensor {
	if len(x.products) > 0 {
		t.addTo(x, t.By(x.multiply).matMulGradInput(false, x.products...))
	}
	x.products = nil
	return x.grad
}

// accumulate adds to the gradient of a trained tensor. It adds at once, so that the
// memory of dw is free before the graph goes on.
func (t *Tape) accumulate(w *ggml.Tensor, dw func() *ggml.Tensor) {
	if acc := t.Grads[w]; acc != nil {
		t.Graph.Expand(t.C.AddInPlace(acc, dw()))
	}
}

// accumulateProduct adds the gradient of w in a product w·x, given the gradient dy of the result.
func (t *Tape) accumulateProduct(w, x, dy *ggml.Tensor) {
	if acc := t.Grads[w]; acc != nil {
		t.Graph.Expand(AccumulateGradWeight.Build(t, GradOperands{acc, x, dy}))
	}
}

// LowPrecision returns x in the input type of products with frozen weights.
func (t *Tape) LowPrecision(x *Value) *ggml.Tensor {
	if x.lowBy != t.Lowering {
		x.low, x.lowBy = t.keepable(Cast.Build(t, x.T)), t.Lowering
	}
	return x.low
}

// castInput returns x in the input type of the product with m: F32 if the matrix is trained.
func (t *Tape) castInput(m Matrix, x *Value) *ggml.Tensor {
	if m.Exact || t.Trains(m.W) {
		return x.T
	}
	return t.LowPrecision(x)
}

// OwnGradient returns y with a copy of its gradient, which the backward of y's op may overwrite.
func (t *Tape) OwnGradient(y *Value) *Value {
	own := &Value{T: y.T, needsGrad: y.needsGrad}
	t.record(own, func(dy *ggml.Tensor) {
		t.flow(y, func() *ggml.Tensor { return t.C.Cont(dy) })
	})
	return own
}
