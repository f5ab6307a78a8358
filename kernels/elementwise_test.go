package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

func elementwiseCases() []opCase {
	// Several shares of a thread, with remainders of any length.
	shape := func(d *draw) []int64 { return []int64{d.Size(200), d.Size(9), d.Size(3), d.Size(3)} }
	cases := []opCase{{
		Name: "cast_bf16", Layouts: optest.ContiguousOnly, Bound: optest.Exact, Runs: 20,
		Operands: func(d *draw) []operand { return []operand{d.Normal(shape(d)...)} },
		Build:    func(c *ctx, x tensors) *ggml.Tensor { return kernels.CastBF16(c, x[0]) },
		Want:     func(x refs) refmath.Tensor { return refmath.RoundBF16(x[0]) },
	}, {
		Name: "vector_geglu", Layouts: optest.ContiguousOnly, Bound: optest.F16Table, Runs: 20,
		Operands: func(d *draw) []operand {
			ne := shape(d)
			return []operand{d.Uniform(-12, 12, ne...), d.Uniform(-1, 1, ne...)}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GateGELU(c, x[0], x[1]) },
		Want:  func(x refs) refmath.Tensor { return refmath.GateSplit(refmath.GeGLU, x[0], x[1]) },
	}}
	for act, unit := range map[ggml.GLU]refmath.GLU{ggml.SwiGLU: refmath.SwiGLU, ggml.GeGLU: refmath.GeGLU} {
		cases = append(cases, opCase{
			Name: act.String() + "_grad", Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Runs: 20, InPlace: true,
			Operands: func(d *draw) []operand {
				ne := shape(d)
				return []operand{d.Normal(ne...), d.Normal(ne...), d.Normal(ne...)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GLUGradInPlace(c, act, x[0], x[1], x[2]) },
			Want: func(x refs) refmath.Tensor {
				dgate, _ := refmath.GLUBack(unit, x[2], x[1], x[0])
				return dgate
			},
		})
	}
	return cases
}

// Gates far from zero, and NaN.
func TestGLUGradExtremes(t *testing.T) {
	nan := float32(math.NaN())
	gates := []float32{0, 20, -20, 100, -100, 1e30, -1e30, nan}
	for _, act := range []ggml.GLU{ggml.SwiGLU, ggml.GeGLU} {
		w := optest.NewWorkbench(t)
		ones := optest.Ones(len(gates))
		dgate := kernels.GLUGradInPlace(w.Context, act, w.Leaf(ones...), w.Leaf(gates...), w.Leaf(ones...)).SetOutput()
		w.Compute(w.NewGraph(dgate))
		got := need.Value(ggml.Read[float32](dgate))(t)
		require.InDeltaSlice(t, []float32{0.5, 1, 0, 1, 0, 1, 0}, got[:7], 1e-6, act)
		require.True(t, got[7] != got[7], "NaN → %v", got[7])
	}
}

// The op equals ggml's table for all F16 numbers, their neighbours and numbers between them.
func TestGeGLUIsTable(t *testing.T) {
	var gates []float32
	for bits := range 1 << 16 {
		half := bits & 0x7fff
		if half > 0x7c00 {
			continue // NaN
		}
		x := math.Ldexp(float64(half&0x3ff), -24)
		if half >= 0x400 {
			x = math.Ldexp(1+float64(half&0x3ff)/1024, half>>10-15)
		}
		if bits != half {
			x = -x
		}
		y := float32(x)
		gates = append(gates, y, math.Nextafter32(y, 0), math.Nextafter32(y, y+1), y+y/2048, y+y/4096)
	}
	inf := float32(math.Inf(1))
	gates = append(gates, 3e38, -3e38, inf, -inf)
	w := optest.NewWorkbench(t)
	gate, ones := w.Leaf(gates...), w.Leaf(optest.Ones(len(gates))...)
	y, table := kernels.GateGELU(w.Context, gate, ones).SetOutput(), w.GLUSplit(ggml.GeGLU, gate, ones).SetOutput()
	w.Compute(w.NewGraph(y, table))
	got, want, others := optest.Values(t, y), optest.Values(t, table), 0
	for i, x := range gates {
		if got[i] == want[i] {
			continue
		}
		others++
		unit := math.Max(math.Abs(float64(want[i]))/1024, 0x1p-22) // ggml's 1 + tanh cancels near −5
		require.InDelta(t, want[i], got[i], unit, "gelu(%v)", x)
	}
	require.Less(t, others, len(gates)/100)
}

func TestGeGLUOfNaN(t *testing.T) {
	w := optest.NewWorkbench(t)
	y := kernels.GateGELU(w.Context, w.Leaf(float32(math.NaN()), 1), w.Leaf(1, float32(math.NaN()))).SetOutput()
	w.Compute(w.NewGraph(y))
	for _, v := range optest.Values(t, y) {
		require.True(t, v != v)
	}
}

// The gradient is the slope of ggml's activation, whose steps are finer than the distance used for
// the difference.
func TestGLUGradIsSlopeOfForward(t *testing.T) {
	const n, step = 2000, 0.25
	w := optest.NewWorkbench(t)
	gates, ones := make([]float32, n), optest.Ones(n)
	for i := range gates {
		gates[i] = 4 * (float32(i)/(n/2) - 1)
	}
	shifted := func(by float32) *ggml.Tensor { return w.ScaleBias(w.Leaf(gates...), 1, by) }
	for act, bound := range map[ggml.GLU]float64{ggml.SwiGLU: 0.01, ggml.GeGLU: 0.02} {
		rise := w.Sub(w.GLUSplit(act, shifted(step/2), w.Leaf(ones...)), w.GLUSplit(act, shifted(-step/2), w.Leaf(ones...)))
		slope := w.Scale(rise, 1/step).SetOutput()
		dgate := kernels.GLUGradInPlace(w.Context, act, w.Leaf(ones...), w.Leaf(gates...), w.Leaf(ones...)).SetOutput()
		w.Compute(w.NewGraph(slope, dgate))
		require.InDeltaSlice(t, optest.Values(t, slope), optest.Values(t, dgate), bound, act)
	}
}

// Rounding keeps NaN.
func TestCastBF16NaN(t *testing.T) {
	var values []float32
	for _, bits := range []uint32{0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffffffff, 0xffff8000} {
		values = append(values, math.Float32frombits(bits))
	}
	values = append(values, float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32)
	w := optest.NewWorkbench(t)
	rounded := kernels.CastBF16(w.Context, w.Leaf(values...)).SetOutput()
	w.Compute(w.NewGraph(rounded))
	got := need.Value(rounded.Float32s())(t)
	for i, v := range got[:6] {
		require.True(t, v != v, "%#x → %v", math.Float32bits(values[i]), v)
	}
	inf := float32(math.Inf(1))
	require.Equal(t, []float32{inf, -inf, inf}, got[6:])
}

func TestElementwiseErrors(t *testing.T) {
	f32 := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"a has type f16; it must have f32": func(c *ggml.Context) { kernels.CastBF16(c, c.NewTensor(ggml.F16, 4)) },
		"a must be contiguous":             func(c *ggml.Context) { kernels.CastBF16(c, c.Transpose(f32(c, 4, 3))) },
		"dy has type f16; it must have f32": func(c *ggml.Context) {
			kernels.GLUGradInPlace(c, ggml.SwiGLU, f32(c, 4), f32(c, 4), c.NewTensor(ggml.F16, 4))
		},
		"gate must be contiguous": func(c *ggml.Context) {
			kernels.GLUGradInPlace(c, ggml.SwiGLU, f32(c, 3, 4), c.Transpose(f32(c, 4, 3)), f32(c, 3, 4))
		},
		"up has type f16; it must have f32":                        func(c *ggml.Context) { kernels.GateGELU(c, f32(c, 4), c.NewTensor(ggml.F16, 4)) },
		"there is no gradient of reglu; swiglu and geglu have one": func(c *ggml.Context) { kernels.GLUGradInPlace(c, ggml.ReGLU, f32(c, 4), f32(c, 4), f32(c, 4)) },
		"the shapes must be equal":                                 func(c *ggml.Context) { kernels.GLUGradInPlace(c, ggml.SwiGLU, f32(c, 4), f32(c, 4), f32(c, 5)) },
	})
}
