package nn

import "github.com/goggml/ggml"

// A Value is a result in a graph, with its gradient once the backward pass has
// reached it.
type Value struct {
	T         *ggml.Tensor
	needsGrad bool         // whether something that is trained lies upstream
	grad      *ggml.Tensor // what has flown back so far, but for
	products  []Product    // these: a matrix, and the gradient of what it made
	multiply  *Lowering    // the lowering of the products
	low       *ggml.Tensor // T in a compute type, once something has asked for it
	lowBy     *Lowering    // the lowering of that type
}

// A Tape builds a graph forwards, and remembers for each step how its gradient
// flows back: the vector-Jacobian product, built from ops in the same graph. ggml
// has an automatic backward too, but it multiplies by a slow op, refuses some weight
// types, and cannot recompute; this one is checked against it, and against central
// differences, in the tests.
//
// It is used by one goroutine.
type Tape struct {
	C        *ggml.Context
	Graph    *ggml.Graph
	Lowering *Lowering // of what is built next
	Layers   Lowerings // nil is Lowering for all
	Inputs   *Inputs
	// Grads are the accumulators of what is trained, by tensor; each has its tensor's
	// shape. nil builds no backward pass.
	Grads map[*ggml.Tensor]*ggml.Tensor
	// Adapters change matrices, and Dropout what trained ones multiply with; nil for none.
	Adapters Adapters
	Dropout  *Dropout
	Copies   Copies // of frozen matrices; nil for none

	steps  *backwardSteps
	noGrad bool
	column int64           // in the batch, of the first token of a chunk
	store  activationStore // of checkpoints
	memo   *memoCursor     // of a function that is computed again, see Once
}

// backwardSteps are in the order in which they were recorded.
type backwardSteps struct{ list []func() }

// Input is a value that nothing trained lies upstream of.
func Input(x *ggml.Tensor) *Value { return &Value{T: x} }

// Training reports whether the tape records gradients.
func (t *Tape) Training() bool { return t.Grads != nil && !t.noGrad }

// Trains reports whether a tensor has a gradient accumulator.
func (t *Tape) Trains(w *ggml.Tensor) bool {
	_, ok := t.Grads[w]
	return ok
}

// On is the same tape with the lowering of a kind of weight of a layer, see [Lowerings].
func (t *Tape) On(layer int, kind string) *Tape {
	if t.Layers == nil {
		return t
	}
	of := t.Layers(layer, kind)
	if of == t.Lowering {
		return t
	}
	t.recorded() // which both share
	return t.By(of)
}

// By is the same tape with another lowering.
func (t *Tape) By(l *Lowering) *Tape {
	by := *t
	by.Lowering = l
	return &by
}

// of is the same tape with the lowering of a matrix.
func (t *Tape) of(m Matrix) *Tape {
	if m.Kind == "" {
		return t
	}
	return t.On(m.Layer, m.Kind)
}

// fork is a tape of the same graph with steps of its own.
func (t *Tape) fork() *Tape {
	f := *t
	f.steps = nil
	return &f
}

// recorded are the backward steps so far.
func (t *Tape) recorded() *backwardSteps {
	if t.steps == nil {
		t.steps = &backwardSteps{}
	}
	return t.steps
}

// at is a tape of a chunk of the batch's tokens.
func (t *Tape) at(r columnRange) *Tape {
	part := t.fork()
	part.column += r.from
	return part
}

// record adds a backward step; y is its result.
func (t *Tape) record(y *Value, back func(dy *ggml.Tensor)) {
	if !t.Training() || !y.needsGrad {
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

// flowProduct adds Wᵀ·dy, the contribution of a product W·x whose gradient is dy. All products of x
// by one lowering become one op, which sums them.
func (t *Tape) flowProduct(x *Value, p Product) {
	if !x.needsGrad {
		return
	}
	if x.multiply != t.Lowering {
		t.gradient(x)
	}
	x.products, x.multiply = append(x.products, p), t.Lowering
}

// gradient is the sum of what has flown to x, nil if nothing has.
func (t *Tape) gradient(x *Value) *ggml.Tensor {
	if len(x.products) > 0 {
		t.addTo(x, t.By(x.multiply).matMulGradInput(false, x.products...))
	}
	x.products = nil
	return x.grad
}

// accumulate adds to the gradient of a trained tensor, at once: what the sum
// needs is free again before the graph goes on.
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

// LowPrecision is x in the type in which products with frozen weights take it.
func (t *Tape) LowPrecision(x *Value) *ggml.Tensor {
	if x.lowBy != t.Lowering {
		x.low, x.lowBy = Cast.Build(t, x.T), t.Lowering
	}
	return x.low
}

// castInput returns x in the type in which the product with a matrix takes it: exact if the matrix
// is trained.
func (t *Tape) castInput(m Matrix, x *Value) *ggml.Tensor {
	if m.Exact || t.Trains(m.W) {
		return x.T
	}
	return t.LowPrecision(x)
}

// OwnGradient is y with a gradient that nothing else reads: what it was computed by may overwrite
// it.
func (t *Tape) OwnGradient(y *Value) *Value {
	own := &Value{T: y.T, needsGrad: y.needsGrad}
	t.record(own, func(dy *ggml.Tensor) {
		t.flow(y, func() *ggml.Tensor { return t.C.Cont(dy) })
	})
	return own
}
