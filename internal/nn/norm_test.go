package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// The gradient of vectors of length 1 is the slope, also of vectors that are shorter than eps, which are divided by it.
func TestL2NormGradient(t *testing.T) {
	const size, vectors = 6, 8
	for _, eps := range []float32{1e-6, 2, 100} { // below all lengths, between them, above
		w := optest.NewWorkbench(t)
		l := need.Value(nn.CPU(ggml.F32))(t)
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

// A sum with its norm has the gradients of both, by stock's ops and by the CPU's kernel.
func TestAddNorm(t *testing.T) {
	const m, n, eps = 37, 5, 1e-3
	rng := optest.RNG(3)
	operands := []refmath.Tensor{refmath.Normal(rng, 1, m, n), refmath.Normal(rng, 1, m, n), refmath.Normal(rng, 1, m)}
	want := func(x []refmath.Tensor) []float64 {
		sum := refmath.Add(x[0], x[1])
		return refmath.Concat(sum, refmath.Mul(refmath.RMSNorm(sum, eps), x[2]), 0).Data
	}
	requireRecurrence(t, sampleRows{{n}}, operands, [][]int64{{m, n}, {m, n}, nil}, want, func(tape *nn.Tape, x []*nn.Value) *nn.Value {
		return tape.Join(tape.AddNorm(x[0], x[1], nn.Norm{Weight: x[2].T, Eps: eps}))
	})
}

// The op equals a sum and its norm one after the other, to the bit, whichever of the two has a gradient.
func TestAddNormIsAddAndNorm(t *testing.T) {
	const m = 301
	cpu := need.Value(nn.CPU(ggml.F32))(t)
	type build func(tape *nn.Tape, x, y *nn.Value, n nn.Norm) (sum, normed *nn.Value)
	for _, norm := range []nn.Norm{{Eps: 1e-6}, {Eps: 1e-6, Layer: true}} {
		for _, k := range [][2]int{{1, 7}, {2, 7}, {3, 7}, {3, 70}} { // gradients of the sum, its norm, both; many tokens
			seeded, n := k[0], int64(k[1])
			compute := func(f build) (results [][]float32) {
				w := optest.NewWorkbench(t)
				leaf := func(seed uint64) *ggml.Tensor { return w.Reshape(w.Leaf(optest.Normal(seed, int(m*n))...), m, n) }
				norm.Weight = w.Leaf(optest.Normal(3, m)...)
				grad := w.Leaf(make([]float32, m)...)
				g := w.NewGraph()
				tape := &nn.Tape{C: w.Context, Graph: g, Lowering: cpu, Grads: map[*ggml.Tensor]*ggml.Tensor{norm.Weight: grad}}
				x, y := nn.Trained(leaf(1)), nn.Trained(leaf(2))
				sum, normed := f(tape, x, y, norm)
				if seeded&1 != 0 {
					sum.Seed(leaf(4))
				}
				if seeded&2 != 0 {
					normed.Seed(leaf(5))
				}
				tape.Backward()
				tensors := []*ggml.Tensor{sum.T, normed.T, x.Gradient(), y.Gradient(), grad}
				for _, r := range tensors {
					g.Expand(r.SetOutput())
				}
				w.Compute(g)
				for _, r := range tensors {
					results = append(results, optest.Values(t, r))
				}
				return results
			}
			apart := func(tape *nn.Tape, x, y *nn.Value, n nn.Norm) (sum, normed *nn.Value) {
				sum = tape.Add(x, y)
				return sum, tape.Norm(sum, n)
			}
			require.Equal(t, compute(apart), compute((*nn.Tape).AddNorm), "layer %t, gradients %b", norm.Layer, seeded)
		}
	}
}
