package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/kernels"
)

func TestElementwise(t *testing.T) { optest.Run(t, elementwiseCases()) }

func elementwiseCases() []opCase {
	// Several shares of a worker, and ends of any length.
	shape := func(d *draw) []int64 { return []int64{d.Size(200), d.Size(9), d.Size(3), d.Size(3)} }
	return []opCase{
		{
			Name: "cast_bf16", Layouts: optest.ContiguousOnly, Bound: optest.Exact, Runs: 20,
			Operands: func(d *draw) []operand { return []operand{d.Normal(shape(d)...)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return kernels.CastBF16(c, x[0]) },
			Want:     func(x refs) refmath.Tensor { return refmath.RoundBF16(x[0]) },
		},
		{
			Name: "swiglu_grad", Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Runs: 20, InPlace: true,
			Operands: func(d *draw) []operand {
				ne := shape(d)
				return []operand{d.Normal(ne...), d.Normal(ne...), d.Normal(ne...)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.SwiGLUGradInPlace(c, x[0], x[1], x[2]) },
			Want: func(x refs) refmath.Tensor {
				dgate, _ := refmath.SwiGLUBack(x[2], x[1], x[0])
				return dgate
			},
		},
	}
}

// Gates that are far from zero, and those that are no numbers.
func TestSwiGLUGradExtremes(t *testing.T) {
	nan := float32(math.NaN())
	gates := []float32{0, 100, -100, 1e30, -1e30, nan}
	ones := []float32{1, 1, 1, 1, 1, 1}
	w := optest.NewWorkbench(t)
	dgate := kernels.SwiGLUGradInPlace(w.Context, w.Leaf(ones...), w.Leaf(gates...), w.Leaf(ones...)).SetOutput()
	w.Compute(w.NewGraph(dgate))
	got, err := ggml.Read[float32](dgate)
	require.NoError(t, err)
	require.InDeltaSlice(t, []float32{0.5, 1, 0, 1, 0}, got[:5], 1e-6)
	require.True(t, got[5] != got[5], "NaN → %v", got[5])
}

// Rounding keeps every number that is none.
func TestCastBF16NaN(t *testing.T) {
	var values []float32
	for _, bits := range []uint32{0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffffffff, 0xffff8000} {
		values = append(values, math.Float32frombits(bits))
	}
	values = append(values, float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32)
	w := optest.NewWorkbench(t)
	rounded := kernels.CastBF16(w.Context, w.Leaf(values...)).SetOutput()
	w.Compute(w.NewGraph(rounded))
	got, err := rounded.Float32s()
	require.NoError(t, err)
	for i, v := range got[:6] {
		require.True(t, v != v, "%#x → %v", math.Float32bits(values[i]), v)
	}
	inf := float32(math.Inf(1))
	require.Equal(t, []float32{inf, -inf, inf}, got[6:])
}

func TestElementwiseErrors(t *testing.T) {
	f32 := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"a has type f16; it must have f32":  func(c *ggml.Context) { kernels.CastBF16(c, c.NewTensor(ggml.F16, 4)) },
		"a must be contiguous":              func(c *ggml.Context) { kernels.CastBF16(c, c.Transpose(f32(c, 4, 3))) },
		"dy has type f16; it must have f32": func(c *ggml.Context) { kernels.SwiGLUGradInPlace(c, f32(c, 4), f32(c, 4), c.NewTensor(ggml.F16, 4)) },
		"gate must be contiguous": func(c *ggml.Context) {
			kernels.SwiGLUGradInPlace(c, f32(c, 3, 4), c.Transpose(f32(c, 4, 3)), f32(c, 3, 4))
		},
		"the shapes must be equal": func(c *ggml.Context) { kernels.SwiGLUGradInPlace(c, f32(c, 4), f32(c, 4), f32(c, 5)) },
	})
}
