package nn_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// What the lowerings compute in F32 differs by roundings.
const loweringBound = 1e-5

func lowerings(t testing.TB) []*nn.Lowering {
	cpu, err := nn.CPU(ggml.F32)
	require.NoError(t, err)
	all, err := nn.StockTraining(ggml.F32, nn.AllOptionalOps)
	require.NoError(t, err)
	return []*nn.Lowering{cpu, nn.Stock(), all}
}

// requireSameLowerings compares tensors that each lowering builds from the same operands.
func requireSameLowerings(t *testing.T, build func(w *optest.Workbench, tape *nn.Tape) []*ggml.Tensor) {
	t.Helper()
	var want [][]float32
	for _, l := range lowerings(t) {
		w := optest.NewWorkbench(t)
		results := build(w, &nn.Tape{C: w.Context, Lowering: l, Inputs: nn.NewInputs(w.Context)})
		g := w.NewGraph()
		for _, y := range results {
			g.Expand(y.SetOutput())
		}
		w.Compute(g)
		for i, y := range results {
			got := optest.Values(t, y)
			if l.Name == "cpu" {
				want = append(want, got)
				continue
			}
			require.LessOrEqual(t, refmath.RelativeError(got, widened(want[i])), loweringBound, "result %d by %s", i, l.Name)
		}
	}
}

func widened(x []float32) []float64 { return refmath.From(x).Data }

// Attention and its gradients, of heads with shared keys, over several blocks of
// queries, where queries see all keys before them, a window, or their own sample, and with all that
// may become of their scores.
func TestLoweringsAttend(t *testing.T) {
	for _, k := range []struct{ heads, groups, n, batch int64 }{{1, 1, 1, 1}, {4, 2, 7, 3}, {6, 1, 513, 1}, {2, 2, 1100, 2}} {
		if testing.Short() && k.n > 100 {
			continue
		}
		for name, visible := range map[string]struct {
			first      func(i, sample int64) int32
			window     int64
			onlyWindow bool
			branches   bool
		}{
			"all":                {},
			"its own":            {first: func(i, _ int64) int32 { return int32(i) }},
			"its own, by window": {func(i, _ int64) int32 { return int32(i) }, 1, true, false},
			"window":             {func(i, _ int64) int32 { return int32(max(0, i-4)) }, 5, true, false},
			"unknown window":     {first: func(i, _ int64) int32 { return int32(max(0, i-4)) }},
			"long window":        {func(i, _ int64) int32 { return int32(max(0, i-600)) }, 601, true, false},
			"packed":             {first: func(i, sample int64) int32 { return int32(i / (300 + sample) * (300 + sample)) }},
			"branches":           {branches: true},
			"packed window":      {first: func(i, sample int64) int32 { return int32(max(i-9, i/(20+sample)*(20+sample))) }, window: 10},
		} {
			for _, scored := range []bool{false, true} {
				t.Run(fmt.Sprint(k, " ", name, " ", scored), func(t *testing.T) {
					requireSameLowerings(t, func(w *optest.Workbench, tape *nn.Tape) []*ggml.Tensor {
						const size = 8
						var x []*ggml.Tensor
						for i, vectors := range []int64{k.heads, k.groups, k.groups, k.heads} {
							values := optest.Normal(uint64(i), int(size*vectors*k.n*k.batch))
							x = append(x, w.Reshape(w.Leaf(values...), size, vectors, k.n, k.batch))
						}
						a := nn.AttentionOperands{Q: x[0], K: x[1], V: x[2], Scale: 0.4}
						if visible.first != nil {
							a.FirstVisible = keys(t, w, k.n, k.batch, visible.first)
						}
						a.Window, a.OnlyWindow = visible.window, visible.onlyWindow
						if visible.branches {
							a.FirstVisible = keys(t, w, k.n, k.batch, func(i, _ int64) int32 { return int32(i / 700 * 700) })
							a.HiddenFrom = keys(t, w, k.n, k.batch, func(i, sample int64) int32 { return int32(min(i, i/700*700+100+sample)) })
							a.HiddenTo = keys(t, w, k.n, k.batch, func(i, sample int64) int32 {
								start := i / 700 * 700
								return int32(min(i, start+max(100+sample, (i-start)/240*240)))
							})
						}
						if scored {
							a.Scores = nn.ScoreOptions{Softcap: 2, MaxBias: 8, Sinks: w.Leaf(optest.Normal(7, int(k.heads))...)}
						}
						y := nn.Attention.Build(tape, a)
						d := y.Grad(x[3])
						results := []*ggml.Tensor{y.Y, d.Q, d.K, d.V}
						if scored {
							results = append(results, d.Sinks)
						}
						return results
					})
				})
			}
		}
	}
}

// keys is an input of a key of each query.
func keys(t *testing.T, w *optest.Workbench, n, batch int64, key func(i, sample int64) int32) nn.KeyOfQuery {
	var values []int32
	var floats []float32
	for sample := range batch {
		for i := range n {
			values, floats = append(values, key(i, sample)), append(floats, float32(key(i, sample)))
		}
	}
	input := func(typ ggml.Type) *ggml.Tensor {
		x := w.Leaves.NewTensor(typ, n, batch)
		buffers, err := w.Leaves.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		t.Cleanup(func() { buffers.Close() })
		return x
	}
	return func(typ ggml.Type) *ggml.Tensor {
		x := input(typ)
		if typ == ggml.I32 {
			require.NoError(t, ggml.Write(x, values))
		} else {
			require.NoError(t, ggml.Write(x, floats))
		}
		return x
	}
}

// The gradients of gated activations, also of parts of rows.
func TestLoweringsGateGradients(t *testing.T) {
	for _, act := range []ggml.GLU{ggml.SwiGLU, ggml.GeGLU} {
		for _, parts := range []bool{false, true} {
			t.Run(fmt.Sprint(act, parts), func(t *testing.T) {
				requireSameLowerings(t, func(w *optest.Workbench, tape *nn.Tape) []*ggml.Tensor {
					const m, n = 37, 5
					matrix := func(seed uint64) *ggml.Tensor { return w.Reshape(w.Leaf(optest.Normal(seed, m*n)...), m, n) }
					gate, up, dy := matrix(1), matrix(2), matrix(3)
					if parts {
						both := w.Concat(gate, up, 0)
						half := func(i int64) *ggml.Tensor {
							return w.View(both, []int64{m, n}, []int64{both.Stride(1)}, i*m*both.Stride(0))
						}
						gate, up = half(0), half(1)
					}
					d := nn.GLU.Build(tape, nn.GLUOperands{Act: act, Gate: gate, Up: up}).Grad(dy)
					return []*ggml.Tensor{d.Gate, d.Up}
				})
			})
		}
	}
}

// Norms of both kinds, with and without vectors, and their gradients.
func TestLoweringsNorm(t *testing.T) {
	for _, layer := range []bool{false, true} {
		for _, weight := range []bool{false, true} {
			for _, bias := range []bool{false, true} {
				t.Run(fmt.Sprint(layer, weight, bias), func(t *testing.T) {
					requireSameLowerings(t, func(w *optest.Workbench, tape *nn.Tape) []*ggml.Tensor {
						const m, n = 77, 5
						x, dy := w.Reshape(w.Leaf(optest.Normal(1, m*n)...), m, n), w.Reshape(w.Leaf(optest.Normal(2, m*n)...), m, n)
						norm := nn.Norm{Layer: layer, Eps: 1e-5}
						if weight {
							norm.Weight = w.Leaf(optest.Normal(3, m)...)
						}
						if bias {
							norm.Bias = w.Leaf(optest.Normal(4, m)...)
						}
						y := nn.Normalization.Build(tape, nn.NormOperands{X: x, Norm: norm})
						return []*ggml.Tensor{y.Y, y.Grad(dy)}
					})
				})
			}
		}
	}
}

// Losses and their gradients, also of labels whose probability is 0 in single precision.
func TestLoweringsCrossEntropy(t *testing.T) {
	const vocab, n = 301, 7
	labels, weights := []int32{0, 300, 5, 17, 250, 33, 100}, optest.Normal(2, n)
	logits := optest.Normal(1, vocab*n)
	logits[3*vocab+17], logits[4*vocab+250] = -90, -500
	requireSameLowerings(t, func(w *optest.Workbench, tape *nn.Tape) []*ggml.Tensor {
		z, x := w.Reshape(w.Leaf(logits...), vocab, n), w.Leaves.NewTensor(ggml.I32, 1, n)
		of := nn.CrossEntropyOperands{Logits: w.Cont(z), Labels: input(x), Weights: input(w.Reshape(w.Leaf(weights...), 1, n))}
		require.NoError(t, ggml.Write(x, labels)) // allocated with the leaves
		losses := nn.CrossEntropy.Build(tape, of)
		return []*ggml.Tensor{losses.Y, losses.Grad()}
	})
}

func input(x *ggml.Tensor) nn.TokenInput { return func(bool) *ggml.Tensor { return x } }

// The same of divergences from a teacher, some of whose probabilities are 0.
func TestLoweringsDivergence(t *testing.T) {
	const vocab, n, k = 301, 7, 3
	logits, weights := optest.Normal(1, vocab*n), optest.Normal(2, n)
	var labels []int32
	var probs []float32
	for i := range int32(n) {
		labels, probs = append(labels, i, 100+i, 300-i), append(probs, 0.5, 0, 0.2, 0.3)
	}
	logits[3*vocab+3], logits[4*vocab+104] = -90, -500
	for _, beta := range []float32{0, 0.5, 1} {
		requireSameLowerings(t, func(w *optest.Workbench, tape *nn.Tape) []*ggml.Tensor {
			z, x := w.Reshape(w.Leaf(logits...), vocab, n), w.Leaves.NewTensor(ggml.I32, k, n)
			of := nn.DivergenceOperands{
				Logits: w.Cont(z), Labels: input(x), Probs: input(w.Reshape(w.Leaf(probs...), k+1, n)), Weights: input(w.Reshape(w.Leaf(weights...), 1, n)), Beta: beta,
			}
			require.NoError(t, ggml.Write(x, labels))
			losses := nn.Divergence.Build(tape, of)
			return []*ggml.Tensor{losses.Y, losses.Grad()}
		})
	}
}

func TestLoweringsRefuseOtherGates(t *testing.T) {
	for _, l := range lowerings(t) {
		optest.RequireErrors(t, map[string]func(c *ggml.Context){
			"there is no gradient of geglu_erf; swiglu and geglu have one": func(c *ggml.Context) {
				x := c.NewTensor(ggml.F32, 4)
				nn.GLU.Build(&nn.Tape{C: c, Lowering: l}, nn.GLUOperands{Act: ggml.GeGLUErf, Gate: x, Up: x}).Grad(x)
			},
		})
	}
}
