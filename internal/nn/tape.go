package nn

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// A Value is a result in a graph, with its gradient once the backward pass has
// reached it.
type Value struct {
	T         *ggml.Tensor
	needsGrad bool           // whether something that is trained lies upstream
	grad      *ggml.Tensor   // what has flown back so far, but for the products of
	pairs     []kernels.Pair // these: a matrix, and the gradient of what it made
	low       *ggml.Tensor   // T in the compute type, once something has asked for it
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
	Lowering Lowering
	// Grads are the accumulators of what is trained, by tensor; each has its tensor's
	// shape. nil builds no backward pass.
	Grads map[*ggml.Tensor]*ggml.Tensor

	steps  []func()
	noGrad bool
	column int64            // in the batch, of the first token of a chunk
	store  *activationStore // of checkpoints
}

// Input is a value that nothing trained lies upstream of.
func Input(x *ggml.Tensor) *Value { return &Value{T: x} }

// Training reports whether the tape records gradients.
func (t *Tape) Training() bool { return t.Grads != nil && !t.noGrad }

// Trains reports whether a tensor has a gradient accumulator.
func (t *Tape) Trains(w *ggml.Tensor) bool {
	_, ok := t.Grads[w]
	return ok
}

// fork is a tape of the same graph with steps of its own.
func (t *Tape) fork() *Tape {
	f := *t
	f.steps = nil
	return &f
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
	t.steps = append(t.steps, func() {
		if dy := t.gradient(y); dy != nil {
			back(dy)
		}
	})
}

// Backward runs the steps from the last to the first.
func (t *Tape) Backward() {
	for i := len(t.steps) - 1; i >= 0; i-- {
		t.steps[i]()
	}
	t.steps = nil
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

// flowProduct adds Wᵀ·dy, the contribution of a product W·x whose gradient is dy.
// Those of all products of x become one op, which adds them up as it goes.
func (t *Tape) flowProduct(x *Value, w, dy *ggml.Tensor) {
	if x.needsGrad {
		x.pairs = append(x.pairs, kernels.Pair{W: w, X: dy})
	}
}

// gradient is the sum of what has flown to x, nil if nothing has.
func (t *Tape) gradient(x *Value) *ggml.Tensor {
	if len(x.pairs) > 0 {
		t.addTo(x, t.Lowering.MatMulGradInput(t.C, false, x.pairs...))
	}
	x.pairs = nil
	return x.grad
}

// accumulate adds to the gradient of a trained tensor, at once: what the sum
// needs is free again before the graph goes on.
func (t *Tape) accumulate(w *ggml.Tensor, dw func() *ggml.Tensor) {
	if acc := t.Grads[w]; acc != nil {
		t.Graph.Expand(t.C.AddInPlace(acc, dw()))
	}
}

// accumulateProduct adds the gradient of w in a product w·x, given that of the
// result.
func (t *Tape) accumulateProduct(w, x, dy *ggml.Tensor) {
	if acc := t.Grads[w]; acc != nil {
		t.Graph.Expand(t.Lowering.AccumulateGradWeight(t.C, acc, x, dy))
	}
}

// LowPrecision is x in the type in which products with frozen weights take it.
func (t *Tape) LowPrecision(x *Value) *ggml.Tensor {
	if x.low == nil {
		x.low = t.Lowering.Cast(t.C, x.T)
	}
	return x.low
}

// castInput is x as the product with w takes it: exact where w is trained.
func (t *Tape) castInput(w *ggml.Tensor, x *Value) *ggml.Tensor {
	if t.Trains(w) {
		return x.T
	}
	return t.LowPrecision(x)
}
