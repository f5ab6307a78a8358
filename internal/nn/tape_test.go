package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
)

// typed products demand what they multiply with in a type.
type typed struct {
	nn.LinearOps
	t    *testing.T
	want ggml.Type
}

func (l typed) require(products []nn.Product) {
	for _, p := range products {
		require.Equal(l.t, l.want, p.X.Type())
	}
}

func (l typed) MatMul(c *ggml.Context, f32Sums bool, products ...nn.Product) *ggml.Tensor {
	l.require(products)
	return l.LinearOps.MatMul(c, f32Sums, products...)
}

func (l typed) MatMulGradInput(c *ggml.Context, f32Sums bool, products ...nn.Product) *ggml.Tensor {
	l.require(products)
	return l.LinearOps.MatMulGradInput(c, f32Sums, products...)
}

// Layers of different lowerings multiply the same value, each in its own type: its gradient is
// the sum of theirs.
func TestLayersShareAValue(t *testing.T) {
	const width, tokens = 32, 6
	cpu, err := nn.CPU(ggml.F32)
	require.NoError(t, err)
	rounding, err := nn.StockTraining(ggml.BF16, nn.NoOptionalOps)
	require.NoError(t, err)
	cpu.LinearOps, rounding.LinearOps = typed{cpu.LinearOps, t, ggml.F32}, typed{rounding.LinearOps, t, ggml.BF16}
	gradient := func(layers ...*nn.Lowering) []float32 {
		w := optest.NewWorkbench(t)
		matrix := func(seed uint64, rows int64) *ggml.Tensor {
			return w.Cont(w.Reshape(w.Leaf(optest.Normal(seed, int(width*rows))...), width, rows))
		}
		embd, dy := matrix(1, tokens), matrix(2, width)
		grad := w.Cont(w.Fill(embd, 0))
		g := w.NewGraph(grad)
		tape := &nn.Tape{C: w.Context, Graph: g, Lowering: cpu, Grads: map[*ggml.Tensor]*ggml.Tensor{embd: grad}}
		tape.Layers = func(layer int, _ string) *nn.Lowering { return layers[layer] }
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
