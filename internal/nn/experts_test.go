package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/optest"
)

// A sum that is clamped to the least divisor has no gradient: it does not change with its summands.
func TestNormalizedGradient(t *testing.T) {
	const smallest = 1.0 / (1 << 14)
	for _, lowering := range lowerings(t) {
		w := optest.NewWorkbench(t)
		x := w.Cont(w.Reshape(w.Leaf(0.25, 0.75, smallest/8, smallest/4), 2, 2))
		grad := w.Cont(w.Fill(x, 0))
		g := w.NewGraph(grad)
		tape := &nn.Tape{C: w.Context, Graph: g, Lowering: lowering, Grads: map[*ggml.Tensor]*ggml.Tensor{x: grad}}
		y := tape.Normalized(tape.Embed(w.Cast(w.Arange(0, 2, 1), ggml.I32), nn.Matrix{W: x}))
		y.Seed(w.Reshape(w.Leaf(1, 3, 1, 3), 2, 2))
		tape.Backward()
		g.Expand(y.T.SetOutput(), grad.SetOutput())
		w.Compute(g)
		require.Equal(t, []float32{0.25, 0.75, 0.125, 0.25}, optest.Values(t, y.T))
		require.Equal(t, []float32{1 - 2.5, 3 - 2.5, 1 / smallest, 3 / smallest}, optest.Values(t, grad), lowering.Name)
	}
}
