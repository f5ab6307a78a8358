package kernels_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

func optimizerCases() []opCase {
	const factor = 0.75
	p := refmath.AdamWAt(3, 0.01, 0.9, 0.99, 1e-8, 0.1)
	params := refmath.From(append(p.Tensor().Data, factor))
	args := func(d *draw) []operand {
		ne := []int64{d.Size(200), d.Size(9), d.Size(3), d.Size(3)}
		m, v := refmath.Normal(d.Rand, 0.1, ne...), refmath.Uniform(d.Rand, 0.01, 0.1, ne...)
		return []operand{d.Normal(ne...), d.Normal(ne...), {Values: m}, {Values: v}, {Values: params}}
	}
	step := func(c *ctx, x tensors) *ggml.Tensor { return kernels.AdamWStep(c, adamW(x[0], x[1], x[2], x[3], x[4])) }
	want := func(x refs) (w, m, v refmath.Tensor) {
		return refmath.OptStepAdamW(x[0], refmath.Scale(x[1], factor), x[2], x[3], p)
	}
	return []opCase{
		{
			Name: "adamw_step", Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Runs: 20, Operands: args, Build: step, InPlace: true,
			Want: func(x refs) refmath.Tensor {
				w, _, _ := want(x)
				return w
			},
		},
		{
			Name: "sum_squares", Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Runs: 20,
			Operands: func(d *draw) []operand { return []operand{d.Normal(d.Size(300), d.Size(300), d.Size(2), d.Size(2))} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return kernels.SumSquares(c, x[0]) },
			Want:     func(x refs) refmath.Tensor { return refmath.Sum(refmath.Sqr(x[0])) },
		},
		{
			Name: "gate_step", Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Runs: 20,
			Operands: func(d *draw) []operand {
				n := d.Size(300)
				squares, settings := refmath.Uniform(d.Rand, 0, 2, 1), refmath.Uniform(d.Rand, 0, 2, 8, 1+d.Size(4))
				return []operand{{Values: squares}, d.Normal(n), d.Normal(n), {Values: settings}}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GateStep(c, gate(1, x...)) },
			Want: func(x refs) refmath.Tensor {
				gated := refmath.New(8, int64(len(x[3].Data))/8)
				copy(gated.Data, x[3].Data)
				for i := 7; i < len(gated.Data); i += 8 {
					gated.Data[i] = min(gated.Data[i], 1/math.Sqrt(x[0].Data[0]))
				}
				copy(gated.Data[len(gated.Data)-8:], []float64{x[0].Data[0], 1, 0, 0, 0, 0, 0, 0})
				return gated
			},
		},
	}
}

func gate(clip float64, x ...*ggml.Tensor) kernels.GateOperands {
	return kernels.GateOperands{Squares: x[0], Losses: x[1], Weights: x[2], Settings: x[3], Clip: clip}
}

// A step is made if its norm and all losses with a weight are finite; otherwise the settings are
// the last ones, and nothing changes, to the bit.
func TestGateStep(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	settings := []float32{0.1, 0.9, 0.99, 1e-8, 0.3, 10, 100, 0, 0, 1, 1, 1e-8, 0, 1, 1, 0}
	for _, c := range []struct {
		squares         float32
		losses, weights []float32
		clip            float64
		given, factor   float32 // 0 means no step
	}{
		{4, []float32{1, 2}, []float32{1, 1}, 1, 1, 0.5},
		{4, []float32{1, 2}, []float32{1, 1}, 0, 1, 1},
		{4, []float32{1, 2}, []float32{1, 1}, 3, 1, 1},
		{4, []float32{1, 2}, []float32{1, 1}, 1, 0.5, 0.5},
		{4, []float32{1, 2}, []float32{1, 1}, 0.25, 0.5, 0.125},
		{4, []float32{1, 2}, []float32{1, 1}, 0, 0.5, 0.5},
		{0, []float32{1, 2}, []float32{1, 1}, 1, 1, 1},
		{math.MaxFloat32, []float32{1, 2}, []float32{1, 1}, 0x1p63, 1, 0.5},
		{inf, []float32{1, 2}, []float32{1, 1}, 1, 1, 0},
		{nan, []float32{1, 2}, []float32{1, 1}, 0, 1, 0},
		{4, []float32{1, nan}, []float32{1, 0.5}, 1, 1, 0},
		{4, []float32{inf, 2}, []float32{-1, 0.5}, 1, 1, 0},
		{4, []float32{nan, inf}, []float32{0, 0}, 1, 1, 0.5},
	} {
		settings[7] = c.given
		w := optest.NewWorkbench(t)
		table := w.Leaf(settings...)
		gated := kernels.GateStep(w.Context, gate(c.clip, w.Leaf(c.squares), w.Leaf(c.losses...), w.Leaf(c.weights...), w.Reshape(table, 8, 2))).SetOutput()
		before := []float32{float32(math.Copysign(0, -1)), 1, -2, 1e-40}
		var state []*ggml.Tensor
		for range 3 {
			state = append(state, w.Leaf(before...))
		}
		grad := w.Leaf(nan, inf, -inf, 1)
		if c.factor > 0 {
			grad = w.Leaf(1, 2, 3, 4)
		}
		step := kernels.AdamWStep(w.Context, adamW(state[0], grad, state[1], state[2], w.View(gated, []int64{8}, nil, 0)))
		w.Compute(w.NewGraph(gated, step))
		got := need.Value(ggml.Read[float32](gated))(t)
		if c.factor > 0 {
			require.Equal(t, append(slices.Clone(settings[:7]), c.factor), got[:8], "%+v", c)
			require.Equal(t, []float32{c.squares, 1, 0, 0, 0, 0, 0, 0}, got[8:])
			continue
		}
		require.Equal(t, settings[8:], got[:8], "%+v", c)
		require.Equal(t, []float32{0, 0, 0, 0, 0, 0, 0}, got[9:])
		for _, x := range state {
			after := need.Value(ggml.Read[float32](x))(t)
			for i := range before {
				require.Equal(t, math.Float32bits(before[i]), math.Float32bits(after[i]))
			}
		}
		cleared := need.Value(ggml.Read[float32](grad))(t)
		require.Equal(t, make([]float32, 4), cleared)
	}
}

// A step also updates both moments, and clears the gradient.
func TestAdamWMoments(t *testing.T) {
	const n, factor = 1000, 0.75
	p := refmath.AdamWAt(3, 0.01, 0.9, 0.99, 1e-8, 0.1)
	d := optest.RNG(1)
	values := []refmath.Tensor{refmath.Normal(d, 1, n), refmath.Normal(d, 1, n), refmath.Normal(d, 0.1, n), refmath.Uniform(d, 0.01, 0.1, n)}
	w := optest.NewWorkbench(t)
	var x []*ggml.Tensor
	for _, v := range values {
		x = append(x, w.Leaf(v.Float32()...))
	}
	params := w.Leaf(refmath.From(append(p.Tensor().Data, factor)).Float32()...)
	w.Compute(w.NewGraph(kernels.AdamWStep(w.Context, adamW(x[0], x[1], x[2], x[3], params))))
	a, m, v := refmath.OptStepAdamW(values[0], refmath.Scale(values[1], factor), values[2], values[3], p)
	for i, want := range []refmath.Tensor{a, refmath.New(n), m, v} {
		got := need.Value(ggml.Read[float32](x[i]))(t)
		require.InDeltaSlice(t, want.Float32(), got, 1e-6, "operand %d", i)
	}
}

// Second moments: zero, and from the smallest normal number to the largest.
func TestAdamWExtremes(t *testing.T) {
	v := []float32{0, 0x1p-126, 1e-37, 1e-20, 1, 1e20, 3e38, float32(math.Inf(1)), float32(math.NaN()), -1}
	w := optest.NewWorkbench(t)
	same := func(x float32) *ggml.Tensor {
		values := make([]float32, len(v))
		for i := range values {
			values[i] = x
		}
		return w.Leaf(values...)
	}
	// With β = 1 the moments do not change, and a becomes −1/(√v + ε).
	const epsilon = 1e-30
	params := w.Leaf(1, 1, 1, epsilon, 0, 1, 1, 1)
	moved := kernels.AdamWStep(w.Context, adamW(same(0), same(0), same(1), w.Leaf(v...), params)).SetOutput()
	w.Compute(w.NewGraph(moved))
	got := need.Value(ggml.Read[float32](moved))(t)
	for i, x := range v[:7] {
		require.InEpsilon(t, -1/(math.Sqrt(float64(x))+epsilon), got[i], 1e-6, "v %v", x)
	}
	for i, x := range got[7:] {
		require.True(t, x != x, "v %v → %v", v[7+i], x)
	}
}

func TestOptimizerErrors(t *testing.T) {
	f32 := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"a has type f16; it must have f32": func(c *ggml.Context) { kernels.SumSquares(c, c.NewTensor(ggml.F16, 4)) },
		"a must be contiguous":             func(c *ggml.Context) { kernels.SumSquares(c, c.Transpose(f32(c, 4, 3))) },
		"settings must have 8 elements, there are 7": func(c *ggml.Context) {
			kernels.AdamWStep(c, adamW(f32(c, 4), f32(c, 4), f32(c, 4), f32(c, 4), f32(c, 7)))
		},
		"settings must be contiguous": func(c *ggml.Context) {
			kernels.AdamWStep(c, adamW(f32(c, 4), f32(c, 4), f32(c, 4), f32(c, 4), c.Transpose(f32(c, 4, 2))))
		},
		"an operand shares memory with the one that is changed": func(c *ggml.Context) {
			x := f32(c, 8)
			kernels.AdamWStep(c, adamW(f32(c, 4), f32(c, 4), f32(c, 4), c.View(x, []int64{4}, nil, 0), x))
		},
		"the squares must have 1 element, there are 2": func(c *ggml.Context) {
			kernels.GateStep(c, gate(1, f32(c, 2), f32(c, 4), f32(c, 4), f32(c, 8, 2)))
		},
		"settings must be [8, groups + 1], they are [8]": func(c *ggml.Context) {
			kernels.GateStep(c, gate(1, f32(c, 1), f32(c, 4), f32(c, 4), f32(c, 8, 1)))
		},
		"losses has type f16; it must have f32": func(c *ggml.Context) {
			kernels.GateStep(c, gate(1, f32(c, 1), c.NewTensor(ggml.F16, 4), f32(c, 4), f32(c, 8, 2)))
		},
		"M has type f16; it must have f32": func(c *ggml.Context) {
			kernels.AdamWStep(c, adamW(f32(c, 4), f32(c, 4), c.NewTensor(ggml.F16, 4), f32(c, 4), f32(c, 8)))
		},
		"the shapes must be equal": func(c *ggml.Context) {
			kernels.AdamWStep(c, adamW(f32(c, 4), f32(c, 4), f32(c, 4), f32(c, 5), f32(c, 8)))
		},
	})
}
