package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/layout"
)

// typed is a table whose products demand what they multiply with in a type.
func typed(t *testing.T, of *nn.Lowering, want ggml.Type) *nn.Lowering {
	check := func(_ *nn.Tape, products nn.Products) bool {
		for _, p := range products.List {
			require.Equal(t, want, p.X.Type())
		}
		return false // the next row multiplies
	}
	return of.With(nn.MatMul.When(check, nil), nn.MatMulGradInput.When(check, nil))
}

// Layers of different lowerings multiply the same value, each in its own type: its gradient is
// the sum of theirs.
func TestLayersShareAValue(t *testing.T) {
	const width, tokens = 32, 6
	cpu, err := nn.CPU(ggml.F32)
	require.NoError(t, err)
	rounding, err := nn.StockTraining(ggml.BF16, nil)
	require.NoError(t, err)
	cpu, rounding = typed(t, cpu, ggml.F32), typed(t, rounding, ggml.BF16)
	gradient := func(layers ...*nn.Lowering) []float32 {
		w := optest.NewWorkbench(t)
		matrix := func(seed uint64, rows int64) *ggml.Tensor {
			return w.Cont(w.Reshape(w.Leaf(optest.Normal(seed, int(width*rows))...), width, rows))
		}
		embd, dy := matrix(1, tokens), matrix(2, width)
		grad := w.Cont(w.Fill(embd, 0))
		g := w.NewGraph(grad)
		tape := &nn.Tape{C: w.Context, Graph: g, Lowering: cpu, Grads: map[*ggml.Tensor]*ggml.Tensor{embd: grad}}
		tape.Layers = func(layer int, _ layout.Kind) *nn.Lowering { return layers[layer] }
		x := tape.Embed(w.Cast(w.Arange(0, tokens, 1), ggml.I32), nn.Matrix{W: embd})
		var sum *nn.Value
		for i := range layers {
			y := tape.On(i, "").Linear(x, nn.Matrix{W: matrix(uint64(3+i), width)})[0]
			if sum != nil {
				y = tape.Add(sum, y)
			}
			sum = y
		}
		sum.Seed(w.View(dy, []int64{width, tokens}, nil, 0))
		tape.Backward()
		g.Expand(grad.SetOutput())
		w.Compute(g)
		return optest.Values(t, grad)
	}
	want := refmath.From(gradient(cpu, cpu, cpu)).Data
	require.Less(t, refmath.RelativeError(gradient(cpu, rounding, cpu), want), 0.01)
	require.Greater(t, refmath.RelativeError(gradient(cpu, rounding, cpu), want), 1e-6) // it rounds
	require.Less(t, refmath.RelativeError(gradient(rounding, cpu, rounding), want), 0.01)
}

// Gradients of parts of groups of rows, and of repeated heads, come back to where their elements were.
func TestGroupsOfRows(t *testing.T) {
	w := optest.NewWorkbench(t)
	l, err := nn.CPU(ggml.F32)
	require.NoError(t, err)
	g := w.NewGraph()
	tape := &nn.Tape{C: w.Context, Graph: g, Lowering: l, Inputs: nn.NewInputs(w.Context), Grads: map[*ggml.Tensor]*ggml.Tensor{}}
	const groups, a, b, n = 3, 2, 4, 5
	values := make([]float32, groups*(a+b)*n)
	for i := range values {
		values[i] = float32(i)
	}
	x := nn.Trained(w.Reshape(w.Leaf(values...), groups*(a+b), n))
	parts := tape.SplitGroups(x, groups, a, b)
	for _, p := range parts {
		p.Seed(p.T) // so that the gradient of each element is the element
	}
	heads := nn.Trained(w.Reshape(w.Leaf(values[:12]...), 2, 3, 2))
	each := tape.RepeatHeads(heads, 4)
	each.Seed(each.T)
	tape.Backward()
	for _, y := range []*ggml.Tensor{parts[0].T, parts[1].T, each.T, x.Gradient(), heads.Gradient()} {
		g.Expand(y.SetOutput())
	}
	w.Compute(g)
	require.Equal(t, []int64{groups * a, n}, parts[0].T.Shape())
	require.Equal(t, []float32{0, 1, 6, 7, 12, 13}, optest.Values(t, parts[0].T)[:groups*a])
	require.Equal(t, []float32{2, 3, 4, 5, 8, 9, 10, 11, 14, 15, 16, 17}, optest.Values(t, parts[1].T)[:groups*b])
	require.Equal(t, values, optest.Values(t, x.Gradient()))
	require.Equal(t, []float32{0, 1, 0, 1, 0, 1, 0, 1, 2, 3}, optest.Values(t, each.T)[:10])
	for i, d := range optest.Values(t, heads.Gradient()) {
		require.Equal(t, 4*values[i], d)
	}
}
