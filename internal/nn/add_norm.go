package nn

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// AddNormOperands are X and Y [m, …], whose sum is normalised in one group, with weight and bias [m].
type AddNormOperands struct {
	X, Y *ggml.Tensor
	Norm
}

// AddNormed is the sum X + Y and its norm. Grad returns the gradient of X, which is the gradient of Y, given the
// gradients of both; dSum is nil if only the norm has one.
type AddNormed struct {
	Sum, Y *ggml.Tensor
	Grad   func(dSum, dy *ggml.Tensor) *ggml.Tensor
}

// AddNorm is what a part adds to the residual stream, with the norm that the next part reads.
var AddNorm = &Op[AddNormOperands, AddNormed]{func(t *Tape, o AddNormOperands) AddNormed {
	sum := t.C.Add(o.X, o.Y)
	normed := Normalization.Build(t, NormOperands{sum, o.Norm})
	return AddNormed{sum, normed.Y, func(dSum, dy *ggml.Tensor) *ggml.Tensor { return added(t.C, dSum, normed.Grad(dy)) }}
}}

// AddNorm returns x + y and the norm of the sum, see [Tape.Norm].
func (t *Tape) AddNorm(x, y *Value, n Norm) (sum, normed *Value) {
	if n.Groups > 1 || !isVector(n.Weight, x) || !isVector(n.Bias, x) {
		sum = t.Add(x, y)
		return sum, t.Norm(sum, n)
	}
	made := AddNorm.Build(t, AddNormOperands{x.T, y.T, n})
	sum = &Value{T: made.Sum, needsGrad: x.needsGrad || y.needsGrad}
	normed = &Value{T: made.Y, needsGrad: sum.needsGrad || t.Trains(n.Weight) || t.Trains(n.Bias)}
	if !normed.needsGrad {
		return sum, normed
	}
	sum.T, normed.T = t.keepable(sum.T), t.keepable(normed.T)
	if !t.Training() {
		return sum, normed
	}
	t.step(func() {
		d, dy := t.gradient(sum), t.gradient(normed)
		if dy != nil {
			t.accumulateNorm(n, sum.T, dy)
			if sum.needsGrad {
				d = made.Grad(d, dy)
			}
		}
		for _, x := range []*Value{x, y} {
			if d != nil {
				t.flow(x, func() *ggml.Tensor { return d })
			}
		}
	})
	return sum, normed
}

// addRMSNorm is the CPU's kernel. Its two results are one tensor, whose memory is free only after the last use of both: for
// many tokens there are two ops instead, so that a step takes no more memory.
func addRMSNorm(t *Tape, o AddNormOperands) (made AddNormed) {
	const few = 16 // tokens
	if o.X.Dim(1) <= few {
		made.Sum, made.Y = kernels.AddRMSNorm(t.C, o.X, o.Y, o.Weight, o.Eps)
		made.Y = addBias(t.C, made.Y, o.Bias)
	} else {
		made = AddNorm.Plain(t, o)
	}
	sum := made.Sum
	made.Grad = func(dSum, dy *ggml.Tensor) *ggml.Tensor {
		if dSum == nil {
			return kernels.WeightedRMSNormGrad(t.C, dy, sum, o.Weight, o.Eps)
		}
		return kernels.AddRMSNormGrad(t.C, dSum, dy, sum, o.Weight, o.Eps)
	}
	return made
}
