package ggml_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestElementOps(t *testing.T) { runOps(t, elementCases()) }

func elementCases() []opCase {
	// Several shares of a worker, and ends of any length.
	shape := func(d *draw) []int64 { return []int64{d.size(200), d.size(9), d.size(3), d.size(3)} }
	return []opCase{
		{
			name: "round_bf16", layouts: denseOnly, bound: exact, runs: 20,
			args:  func(d *draw) []arg { return []arg{d.normal(shape(d)...)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.RoundBF16(x[0]) },
			want:  func(x refs) refmath.Tensor { return refmath.RoundBF16(x[0]) },
		},
		inPlace(opCase{
			name: "swiglu_back", layouts: denseOnly, bound: few, runs: 20,
			args: func(d *draw) []arg {
				ne := shape(d)
				return []arg{d.normal(ne...), d.normal(ne...), d.normal(ne...)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SwiGLUBackInPlace(x[0], x[1], x[2]) },
			want: func(x refs) refmath.Tensor {
				dgate, _ := refmath.SwiGLUBack(x[2], x[1], x[0])
				return dgate
			},
		}),
	}
}

// Gates that are far from zero, and those that are no numbers.
func TestSwiGLUBackExtremes(t *testing.T) {
	nan := float32(math.NaN())
	gates := []float32{0, 100, -100, 1e30, -1e30, nan}
	ones := []float32{1, 1, 1, 1, 1, 1}
	w := newWorkbench(t)
	dgate := w.SwiGLUBackInPlace(w.leaf(ones...), w.leaf(gates...), w.leaf(ones...)).SetOutput()
	w.compute(w.NewGraph(dgate))
	got, err := ggml.Read[float32](dgate)
	require.NoError(t, err)
	require.InDeltaSlice(t, []float32{0.5, 1, 0, 1, 0}, got[:5], 1e-6)
	require.True(t, got[5] != got[5], "NaN → %v", got[5])
}

// Rounding keeps every number that is none.
func TestRoundBF16NaN(t *testing.T) {
	var values []float32
	for _, bits := range []uint32{0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffffffff, 0xffff8000} {
		values = append(values, math.Float32frombits(bits))
	}
	values = append(values, float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32)
	w := newWorkbench(t)
	rounded := w.RoundBF16(w.leaf(values...)).SetOutput()
	w.compute(w.NewGraph(rounded))
	got, err := rounded.Float32s()
	require.NoError(t, err)
	for i, v := range got[:6] {
		require.True(t, v != v, "%#x → %v", math.Float32bits(values[i]), v)
	}
	inf := float32(math.Inf(1))
	require.Equal(t, []float32{inf, -inf, inf}, got[6:])
}

func TestElementOpsMisuse(t *testing.T) {
	f32 := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	refused(t, map[string]func(c *ggml.Context){
		"a has type f16; it must have f32":            func(c *ggml.Context) { c.RoundBF16(c.NewTensor(ggml.F16, 4)) },
		"a must be contiguous":                        func(c *ggml.Context) { c.RoundBF16(c.Transpose(f32(c, 4, 3))) },
		"each operand has type f16; it must have f32": func(c *ggml.Context) { c.SwiGLUBackInPlace(f32(c, 4), f32(c, 4), c.NewTensor(ggml.F16, 4)) },
		"gate must be contiguous":                     func(c *ggml.Context) { c.SwiGLUBackInPlace(f32(c, 3, 4), c.Transpose(f32(c, 4, 3)), f32(c, 3, 4)) },
		"the shapes must be equal":                    func(c *ggml.Context) { c.SwiGLUBackInPlace(f32(c, 4), f32(c, 4), f32(c, 5)) },
	})
}
