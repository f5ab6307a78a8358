package model

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// A Var is a result in a graph, with its gradient once the backward pass has
// reached it.
type Var struct {
	T     *ggml.Tensor
	needs bool           // whether something that is trained lies upstream
	grad  *ggml.Tensor   // what has flown back so far, but for the products of
	pairs []kernels.Pair // these: a matrix, and the gradient of what it made
	half  *ggml.Tensor   // T in BF16, once something has asked for it
}

// A tape builds a graph forwards, and remembers for each step how its gradient
// flows back: the vector-Jacobian product, built from the same ops in the same
// graph. ggml has an automatic backward too, but it multiplies by a slow op,
// refuses some weight types, and cannot recompute; this one is checked
// against it, and against central differences, in the tests.
type tape struct {
	c       *ggml.Context
	g       *ggml.Graph
	trained map[string]*ggml.Tensor // gradient accumulators by tensor name; nil when nothing is trained
	steps   []func()
	off     bool           // forward only
	inputs  *keeper        // of checkpoints
	acc     ggml.Precision // in which products that are rounded are added up
}

// accPrecision is the precision in which products in a type are added up.
func accPrecision(products ggml.Type) ggml.Precision {
	if products == ggml.F16 {
		return ggml.PrecisionF16
	}
	return ggml.PrecisionF32
}

func (t *tape) training() bool { return t.trained != nil && !t.off }

// record adds a backward step; y is its result.
func (t *tape) record(y *Var, back func(dy *ggml.Tensor)) {
	if !t.training() || !y.needs {
		return
	}
	t.steps = append(t.steps, func() {
		if dy := t.gradient(y); dy != nil {
			back(dy)
		}
	})
}

// backward runs the steps from the last to the first.
func (t *tape) backward() {
	for i := len(t.steps) - 1; i >= 0; i-- {
		t.steps[i]()
	}
	t.steps = nil
}

// flow adds a contribution to the gradient of x.
func (t *tape) flow(x *Var, dx func() *ggml.Tensor) {
	if !x.needs {
		return
	}
	t.addTo(x, dx())
}

func (t *tape) addTo(x *Var, d *ggml.Tensor) {
	if x.grad != nil {
		d = t.c.Add(x.grad, d)
	}
	x.grad = d
}

// flowProduct adds w·dy, the contribution of a product w·x whose gradient is dy.
// Those of all products of x become one op, which adds them up as it goes.
func (t *tape) flowProduct(x *Var, w, dy *ggml.Tensor) {
	if x.needs {
		x.pairs = append(x.pairs, kernels.Pair{W: w, X: dy})
	}
}

// gradient is the sum of what has flown to x, nil if nothing has.
func (t *tape) gradient(x *Var) *ggml.Tensor {
	if len(x.pairs) > 0 {
		t.addTo(x, kernels.GEMMGradInput(t.c, t.acc, x.pairs...))
	}
	x.pairs = nil
	return x.grad
}

// trains tells whether a tensor has a gradient accumulator.
func (t *tape) trains(w *ggml.Tensor) bool {
	if t.trained == nil || w == nil {
		return false
	}
	_, ok := t.trained[w.Name()]
	return ok
}

// accumulate adds to the gradient of a trained tensor, at once: what the sum
// needs is free again before the pass goes on.
func (t *tape) accumulate(w *ggml.Tensor, dw func() *ggml.Tensor) {
	if acc := t.trained[w.Name()]; acc != nil {
		t.g.Expand(t.c.AddInPlace(acc, dw()))
	}
}

// accumulateProduct adds the gradient of w in a product w·x, given that of the
// result.
func (t *tape) accumulateProduct(w, x, dy *ggml.Tensor) {
	if acc := t.trained[w.Name()]; acc != nil {
		t.g.Expand(kernels.AccumulateGradWeight(t.c, acc, x, dy))
	}
}
