package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// AdamWOperands are a parameter, its gradient and its first and second moments, all F32, contiguous
// and of the same shape, and the settings of a step, F32 [8]: learning rate, β₁, β₂, ε, weight
// decay, 1/(1 − β₁ᵗ) and 1/(1 − β₂ᵗ) for step t = 1, 2, …, and a factor of the gradient. A skipped
// step has learning rate, decay and factor 0, and β₁ = β₂ = 1.
type AdamWOperands struct{ Param, Grad, M, V, Settings *ggml.Tensor }

// GateOperands decide whether a step is taken; contiguous F32.
type GateOperands struct {
	Squares         *ggml.Tensor // [1], the square of the norm of all gradients
	Losses, Weights *ggml.Tensor // [n], of tokens; losses of weight 0 do not count
	Settings        *ggml.Tensor // [8, groups + 1]: the settings of [AdamWOperands] for each group, and for a skipped step
	Clip            float64      // largest norm of the gradients times their factor; 0: any
}

// Gradients are the gradients of all parameters, contiguous F32: one by one, and in runs of adjacent
// ones.
type Gradients struct{ Each, Runs []*ggml.Tensor }

// A GatedStep is the decision whether a step is taken, with its settings.
type GatedStep struct {
	Status   *ggml.Tensor   // [2]: the square of the norm; 1 if the step is taken, else 0
	Settings []*ggml.Tensor // of each group: a step's, with the factor that keeps the norm within Clip, or a skipped step's
}

// Steps of an optimiser.
var (
	// SumSquares returns the sum of the squares of all gradients, [1].
	SumSquares = &Op[Gradients, *ggml.Tensor]{plainSumSquares}
	// GateStep takes the step if the norm and all losses that count are finite.
	GateStep = &Op[GateOperands, GatedStep]{plainGateStep}
	// AdamWStep updates the parameter and its moments in place and clears the gradient. In a
	// skipped step the gradient may hold NaN. The graph must compute the nodes in their order.
	AdamWStep = &Op[AdamWOperands, []*ggml.Tensor]{plainAdamWStep}
)

// addUp returns the sum of a function of each tensor.
func addUp(c *ggml.Context, list []*ggml.Tensor, of func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor) *ggml.Tensor {
	all := of(c, list[0])
	for _, x := range list[1:] {
		all = c.Add(all, of(c, x))
	}
	return all
}

// plainSumSquares sums rows first: some devices sum one row with few threads.
func plainSumSquares(t *Tape, g Gradients) *ggml.Tensor {
	return addUp(t.C, g.Runs, func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
		squares, n := c.Sqr(x), x.NumElements()
		if row := min(1<<10, n&-n); row >= 32 { // the largest power of two that divides it
			squares = c.SumRows(c.Reshape(squares, row, n/row))
		}
		return c.Sum(squares)
	})
}

// plainGateStep looks up the settings of the step or of a skipped one, so that the unused ones, which may
// be NaN, enter no result. Infinity and NaN are not below the largest number. Clipping bounds the norm of
// the gradient after its factor.
func plainGateStep(t *Tape, g GateOperands) (gated GatedStep) {
	c := t.C
	finite := func(x *ggml.Tensor) *ggml.Tensor { return c.Step(c.ScaleBias(x, -1, math.MaxFloat32)) }
	counted := c.Mul(c.ScaleBias(finite(g.Losses), -1, 1), c.Sqr(g.Weights))
	taken := c.Mul(finite(g.Squares), c.ScaleBias(c.Step(c.Sum(counted)), -1, 1))

	part := func(n, group, first int64) *ggml.Tensor {
		return c.View(g.Settings, []int64{n}, nil, group*g.Settings.Stride(1)+first*g.Settings.Stride(0))
	}
	groups, row := g.Settings.Dim(1)-1, c.ArgMax(c.Concat(c.ScaleBias(taken, -1, 1), taken, 0))
	for i := range groups {
		step := part(8, i, 0)
		if g.Clip > 0 {
			factor := part(1, i, 7)
			norm := c.Mul(c.Sqrt(g.Squares), factor)
			clip := c.Clamp(c.Div(c.ScaleBias(g.Squares, 0, float32(g.Clip)), norm), 0, 1)
			step = c.Concat(part(7, i, 0), c.Mul(clip, factor), 0)
		}
		gated.Settings = append(gated.Settings, c.Reshape(c.GetRows(c.Concat(part(8, groups, 0), step, 1), row), 8))
	}
	gated.Status = c.Concat(g.Squares, taken, 0)
	return gated
}

// largestSquared is the largest number with a finite square.
var largestSquared = math.Nextafter32(1<<64, 0)

// plainAdamWStep clips, updates, and clears the gradient. The settings of ggml's op are the first seven; the
// eighth is the factor of the gradient. A skipped step multiplies the gradient's contribution by 0, so it
// must be finite. Two Relu turn NaN into 0, because NaN > 0 is false; some devices let NaN pass a clamp.
func plainAdamWStep(t *Tape, a AdamWOperands) []*ggml.Tensor {
	c, size := t.C, a.Settings.Type().BlockBytes()
	clipped := c.Mul(a.Grad, c.View(a.Settings, []int64{1}, nil, 7*size))
	clipped = c.Sub(c.Relu(clipped), c.Relu(c.Neg(clipped)))
	clipped = c.ClampInPlace(clipped, -largestSquared, largestSquared)
	update := c.OptStepAdamW(ggml.AdamWOperands{
		Param: a.Param, Grad: clipped, M: a.M, V: a.V, Settings: c.View(a.Settings, []int64{7}, nil, 0),
	})
	// The zeros depend on a reader of the gradient: devices reorder independent nodes.
	return []*ggml.Tensor{update, c.Copy(c.Fill(clipped, 0), a.Grad)}
}
