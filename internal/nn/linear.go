package nn

import (
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/layout"
)

// A LoRAPair is the LoRAPair of package model.
type LoRAPair struct {
	A, B  *ggml.Tensor
	Scale float32
	Type  ggml.Type
	Owner int // the adapter that it is of, see [Mix]
}

// Adapters are the pairs of all adapters in use, by the name of the matrix.
type Adapters map[string][]LoRAPair

// AdaptersOf converts the adapters of package model.
func AdaptersOf[P ~struct {
	A, B  *ggml.Tensor
	Scale float32
	Type  ggml.Type
}, M ~map[string][]P](adapters M) Adapters {
	list := Adapters{}
	for name, pairs := range adapters {
		for _, p := range pairs {
			q := struct {
				A, B  *ggml.Tensor
				Scale float32
				Type  ggml.Type
			}(p)
			list[name] = append(list[name], LoRAPair{A: q.A, B: q.B, Scale: q.Scale, Type: q.Type})
		}
	}
	return list
}

// On lists the pairs on a matrix that change it.
func (a Adapters) On(m Matrix) []LoRAPair {
	var list []LoRAPair
	for _, p := range a[m.Name] {
		if p.Scale != 0 && !m.NoLoRA {
			list = append(list, p)
		}
	}
	return list
}

// A Matrix is the weight of a linear layer: y = OutScale · (Scale · W·x + Bias) + OutBias, with
// W [n_in, n_out]. A model may have neither scales [1] nor biases [n_out]. Adapters add to
// Scale · W·x.
type Matrix struct {
	Name                              string      // of W, by which adapters find it
	Layer                             int         // with Kind where it lies, which decides by which ops it is multiplied
	Kind                              layout.Kind // see [Lowerings]; "" uses the tape's lowering
	W, Scale, Bias, OutScale, OutBias *ggml.Tensor
	NoLoRA                            bool // no adapter changes the product
	Exact                             bool // products are in F32 whatever the compute type
	Attended                          bool // the input is what attention returns, see [Product]
}

// TrainsMatrix reports whether a matrix, its bias or an adapter on it has a gradient accumulator.
func (t *Tape) TrainsMatrix(m Matrix) bool {
	return t.Trains(m.W) || t.Trains(m.Bias) || t.Trains(m.OutBias) ||
		slices.ContainsFunc(t.Adapters.On(m), func(p LoRAPair) bool { return t.Trains(p.A) || t.Trains(p.B) })
}

// LinearOperands are matrices that multiply the same X [n_in, n].
type LinearOperands struct {
	X        *Value
	Matrices []Matrix
}

// Linear is [Tape.Linear] of matrices on one device.
var Linear = &Op[LinearOperands, []*Value]{func(t *Tape, o LinearOperands) (list []*Value) {
	for _, m := range o.Matrices {
		list = append(list, t.linear(o.X, m))
	}
	return list
}}

// Linear multiplies matrices with the same x [n_in, n] → [n_out, n] each, with bias and
// adapters: OutScale · (Scale · W·x + Bias + Σ s·B·(A·x)) + OutBias.
func (t *Tape) Linear(x *Value, matrices ...Matrix) []*Value {
	var list []*Value
	for n := 0; n < len(matrices); {
		on, from := t.of(matrices[n]), n
		for n++; n < len(matrices) && t.of(matrices[n]).Lowering == on.Lowering; n++ {
		}
		list = append(list, Linear.Build(on, LinearOperands{x, matrices[from:n]})...)
	}
	return list
}

func (t *Tape) linear(x *Value, m Matrix) *Value {
	adapters := t.Adapters.On(m)
	y := &Value{needsGrad: x.needsGrad || t.Trains(m.W) || t.Trains(m.Bias) || t.Trains(m.OutBias)}
	lowRank := make([]*Value, len(adapters)) // s·A·x
	for i, p := range adapters {
		dropped, _ := t.Dropout.drop(t, x, p)
		// The factor goes to the low-rank result, which B and its gradient share.
		lowRank[i] = &Value{T: t.keepable(t.owned(t.C.Scale(t.matMul(true, Product{W: p.A, X: dropped.T}), p.Scale), p))}
		y.needsGrad = y.needsGrad || t.Trains(p.A) || t.Trains(p.B)
	}
	y.T = m.Finish(t.C, t.addProducts(x, m, adapters, lowRank))
	t.record(y, func(grad *ggml.Tensor) {
		t.accumulateBias(m.OutBias, grad)
		grad = mulScale(t.C, grad, m.OutScale)
		t.accumulateBias(m.Bias, grad)
		dy := &Value{T: grad}
		own := dy
		if m.Scale != nil {
			own = &Value{T: mulScale(t.C, grad, m.Scale)}
		}
		t.accumulateProduct(m.W, x.T, own.T)
		var folded *ggml.Tensor
		if x.needsGrad {
			if folded = t.foldedTransposed(m, adapters); folded == nil {
				t.flowProduct(x, t.productBack(m, adapters, t.castInput(m, own)))
			}
		}
		dh := make([]*Value, len(adapters))
		for i, p := range adapters {
			dropped, mask := t.Dropout.drop(t, x, p) // once more, instead of keeping it
			dh[i] = t.backLoRA(dropped, lowRank[i], dy, p)
			if folded != nil {
				continue
			}
			t.flowProduct(dropped, Product{W: p.A, X: t.LowPrecision(dh[i])})
			if mask != nil {
				t.flow(x, func() *ggml.Tensor { return t.C.Mul(t.gradient(dropped), mask) })
			}
		}
		if folded != nil {
			t.flowProduct(x, Product{Transposed: folded, X: t.stacked(t.castInput(m, own), dh)})
		}
	})
	return y
}

// addProducts returns Scale · W·x + Σ B·h. Without a scale it is one op: a sum of products or, if a copy of [W|B] is
// kept, a single product.
func (t *Tape) addProducts(x *Value, m Matrix, adapters []LoRAPair, lowRank []*Value) *ggml.Tensor {
	if folded := t.folded(m, adapters); folded != nil {
		return t.matMul(false, Product{W: folded, X: t.stacked(t.castInput(m, x), lowRank)})
	}
	products := []Product{t.product(m, t.castInput(m, x))}
	var scaled *ggml.Tensor
	if m.Scale != nil {
		scaled, products = t.C.Mul(t.matMul(m.Exact || t.Trains(m.W), products...), m.Scale), nil
	}
	for i, p := range adapters {
		products = append(products, Product{W: p.B, X: lowRank[i].T})
	}
	switch {
	case len(products) == 0:
		return scaled
	case scaled != nil:
		return t.C.Add(scaled, t.matMul(true, products...))
	}
	return t.matMul(m.Exact || t.Trains(m.W), products...)
}

// backLoRA backpropagates through the product of h with B into A and B, and returns the gradient of
// A·x. Unless it is folded into the product of its matrix, an adapter is exact on the way forward,
// where later layers enlarge an error. Of its gradients only the low-rank h's must be exact.
func (t *Tape) backLoRA(x, h, dy *Value, p LoRAPair) *Value {
	if t.Trains(p.B) {
		t.accumulateProduct(p.B, CastLowRank.Build(t, h), CastLowRank.Build(t, dy))
	}
	exact := t.matMulGradInput(true, Product{W: p.B, X: dy.T})
	dh := &Value{T: t.C.Scale(exact, p.Scale)}
	t.accumulateProduct(p.A, t.LowPrecision(x), t.LowPrecision(dh))
	return dh
}

// Finish adds the biases to the product and its adapters, and scales it between them.
func (m Matrix) Finish(c *ggml.Context, y *ggml.Tensor) *ggml.Tensor {
	return addBias(c, mulScale(c, addBias(c, y, m.Bias), m.OutScale), m.OutBias)
}

func addBias(c *ggml.Context, y, bias *ggml.Tensor) *ggml.Tensor {
	if bias == nil {
		return y
	}
	return c.Add(y, bias)
}

func mulScale(c *ggml.Context, y, scale *ggml.Tensor) *ggml.Tensor {
	if scale == nil {
		return y
	}
	return c.Mul(y, scale)
}

func (t *Tape) accumulateBias(bias, dy *ggml.Tensor) {
	if bias != nil {
		t.accumulate(bias, func() *ggml.Tensor { return SumColumns.Build(t, SumOperands{dy, bias}) })
	}
}

// Embed looks up tokens [n] in the embedding w [n_embd, n_vocab] → [n_embd, n], with
// the adapters of its name.
func (t *Tape) Embed(tokens *ggml.Tensor, m Matrix) *Value {
	t = t.of(m)
	x := &Value{T: t.C.GetRows(m.W, tokens), needsGrad: t.Trains(m.W)}
	t.record(x, func(dx *ggml.Tensor) {
		t.accumulate(m.W, func() *ggml.Tensor { return ScatterAdd.Build(t, ScatterOperands{dx, tokens, m.W}) })
	})
	for _, p := range t.Adapters.On(m) {
		x = t.embedLoRA(x, tokens, p)
	}
	return x
}

func (t *Tape) embedLoRA(x *Value, tokens *ggml.Tensor, p LoRAPair) *Value {
	c := t.C
	h := t.owned(c.Scale(c.GetRows(p.A, tokens), p.Scale), p)
	sum := &Value{T: c.Add(x.T, t.matMul(true, Product{W: p.B, X: h})), needsGrad: x.needsGrad || t.Trains(p.A) || t.Trains(p.B)}
	t.record(sum, func(dy *ggml.Tensor) {
		t.flow(x, func() *ggml.Tensor { return dy })
		t.accumulateProduct(p.B, h, dy)
		t.accumulate(p.A, func() *ggml.Tensor {
			dh := c.Scale(t.matMulGradInput(true, Product{W: p.B, X: dy}), p.Scale)
			return ScatterAdd.Build(t, ScatterOperands{dh, tokens, p.A})
		})
	})
	return sum
}
