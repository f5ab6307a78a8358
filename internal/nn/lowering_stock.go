package nn

import (
	"fmt"
	"math"

	"github.com/goggml/ggml"
)

// stock computes with ops that every ggml device takes.
type stock struct{}

// Stock is the table of the plain forms, of ops that every device of ggml has, as stock llama.cpp uses them: no op of
// kernels, no OUT_PROD and no *_BACK. Products with quantised weights round x to 8 bits.
func Stock() *Lowering {
	return &Lowering{Name: "stock", OptimizerOps: stock{}, TakesCopies: true, AdamWResults: 2}
}

// StockTraining is [Stock] that dequantises weights before it multiplies: both ways go
// through the same function. Products with frozen weights are in F32, or round both
// operands to BF16 and add up in F32. Checkpoints compress nothing: what they would write
// into is the CPU's. The device has the optional ops.
func StockTraining(compute ggml.Type, has OptionalOps) (*Lowering, error) {
	l := Stock().With(MatMul.By(matMulDequantised), MatMulID.By(matMulIDDequantised)).With(has.rows()...)
	switch compute {
	case ggml.F32:
		return l, nil
	case ggml.BF16:
		l.Keep = KeepBF16
		return l.With(Cast.By(func(t *Tape, x *ggml.Tensor) *ggml.Tensor { return t.C.Cast(x, ggml.BF16) })), nil
	}
	return nil, fmt.Errorf("there are no products of type %v on this device; they are f32 or bf16", compute)
}

// SumSquares makes rows first: some devices add up a row by a few threads.
func (stock) SumSquares(c *ggml.Context, g Gradients) *ggml.Tensor {
	return addUp(c, g.Runs, func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
		squares, n := c.Sqr(x), x.NumElements()
		if row := min(1<<10, n&-n); row >= 32 { // the largest power of two that divides it
			squares = c.SumRows(c.Reshape(squares, row, n/row))
		}
		return c.Sum(squares)
	})
}

// GateStep looks the settings up by whether the step is taken, so that no result uses the others.
// Infinity and NaN are not below the largest number. Clipping bounds the norm of the gradient after
// its factor.
func (stock) GateStep(c *ggml.Context, g GateOperands) (status *ggml.Tensor, settings []*ggml.Tensor) {
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
		settings = append(settings, c.Reshape(c.GetRows(c.Concat(part(8, groups, 0), step, 1), row), 8))
	}
	return c.Concat(g.Squares, taken, 0), settings
}

// largestSquared is the largest number with a finite square.
var largestSquared = math.Nextafter32(1<<64, 0)

// AdamWStep clips, updates, and clears the gradient. The settings of ggml's op are the first seven; the
// eighth is the factor of the gradient. A skipped step multiplies the gradient's contribution by 0, so it
// must be finite. Two Relu turn NaN into 0, because NaN > 0 is false; some devices let NaN pass a clamp.
func (stock) AdamWStep(c *ggml.Context, a AdamWOperands) []*ggml.Tensor {
	size := a.Settings.Type().BlockBytes()
	clipped := c.Mul(a.Grad, c.View(a.Settings, []int64{1}, nil, 7*size))
	clipped = c.Sub(c.Relu(clipped), c.Relu(c.Neg(clipped)))
	clipped = c.ClampInPlace(clipped, -largestSquared, largestSquared)
	update := c.OptStepAdamW(ggml.AdamWOperands{
		Param: a.Param, Grad: clipped, M: a.M, V: a.V, Settings: c.View(a.Settings, []int64{7}, nil, 0),
	})
	// The zeros are made of what the gradient was read for: devices reorder what does not
	// depend on each other.
	return []*ggml.Tensor{update, c.Copy(c.Fill(clipped, 0), a.Grad)}
}
