package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// The gradient of vectors of length 1 is the slope, also of vectors that are shorter than eps, which are divided by it.
func TestL2NormGradient(t *testing.T) {
	const size, vectors = 6, 8
	for _, eps := range []float32{1e-6, 2, 100} { // below all lengths, between them, above
		w := optest.NewWorkbench(t)
		l, err := nn.CPU(ggml.F32)
		require.NoError(t, err)
		g := w.NewGraph()
		tape := &nn.Tape{C: w.Context, Graph: g, Lowering: l, Grads: map[*ggml.Tensor]*ggml.Tensor{}}
		rng := optest.RNG(5)
		x, dy := refmath.Normal(rng, 1, size, vectors), refmath.Normal(rng, 1, size, vectors)
		of := nn.Trained(w.Reshape(w.Leaf(x.Float32()...), size, vectors))
		y := tape.L2Norm(of, eps)
		y.Seed(w.Reshape(w.Leaf(dy.Float32()...), size, vectors))
		tape.Backward()
		g.Expand(of.Gradient().SetOutput())
		w.Compute(g)
		for i, got := range optest.Values(t, of.Gradient()) {
			const h = 1e-6
			at := func(step float64) (sum float64) {
				moved := x.Clone()
				moved.Data[i] += step
				for j, y := range refmath.L2Norm(moved, float64(eps)).Data {
					sum += y * dy.Data[j]
				}
				return sum
			}
			require.InDelta(t, (at(h)-at(-h))/(2*h), got, 1e-5, "eps %v", eps)
		}
	}
}
