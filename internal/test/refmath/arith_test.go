package refmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// near requires shape ne and values within 1e-12.
func near(t *testing.T, got Tensor, want []float64, ne ...int64) {
	t.Helper()
	require.Equal(t, shapeOf("near", ne), got.Ne)
	require.Less(t, MaxAbsDiff(got.Data, want), 1e-12, "got %v, want %v", got.Data, want)
}

func TestTensor(t *testing.T) {
	a := From([]int32{0, 1, 2, 3, 4, 5}, 3, 2)
	require.Equal(t, 5.0, a.At(2, 1, 0, 0))
	require.Equal(t, []float64{3, 4, 5}, a.Row(1))
	require.Equal(t, []int32{0, 1, 2, 3, 4, 5}, a.Int32())
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5}, a.Int64())
	require.Equal(t, []float32{0, 1, 2, 3, 4, 5}, a.Float32())
	b := a.Clone()
	b.Set(9, 0, 1, 0, 0)
	require.Equal(t, 3.0, a.At(0, 1, 0, 0))
	require.Equal(t, 9.0, b.Data[3])
	require.PanicsWithValue(t, "refmath: From: 6 values for shape [4 2 1 1], want 8",
		func() { From(a.Data, 4, 2) })
}

func TestArithmeticRepeatsSecondOperand(t *testing.T) {
	a := From([]float64{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2)
	near(t, Add(a, From([]float64{10, 20})), []float64{11, 22, 13, 24, 15, 26, 17, 28}, 4, 2)
	near(t, Sub(a, From([]float64{1, 5}, 1, 2)), []float64{0, 1, 2, 3, 0, 1, 2, 3}, 4, 2)
	near(t, Mul(a, From([]float64{2})), []float64{2, 4, 6, 8, 10, 12, 14, 16}, 4, 2)
	near(t, Div(a, From([]float64{1, 2, 1, 2}, 4)), []float64{1, 1, 3, 2, 5, 3, 7, 4}, 4, 2)
	near(t, AddID(a, From([]float64{0, 0, 0, 0, 1, 1, 1, 1}, 4, 2), From([]int{1, 0}, 2)),
		[]float64{2, 3, 4, 5, 5, 6, 7, 8}, 4, 2)
	require.PanicsWithValue(t, "refmath: Add: shape [3 1 1 1] does not repeat to [4 2 1 1]",
		func() { Add(a, New(3)) })
}

func TestElementwise(t *testing.T) {
	x := []float64{-4, -1.5, -0.5, 0, 0.5, 2.5, 25}
	e := math.E
	for name, c := range map[string]struct {
		f    func(Tensor) Tensor
		want []float64
	}{
		"scale bias": {func(a Tensor) Tensor { return ScaleBias(a, 2, 1) }, []float64{-7, -2, 0, 1, 2, 6, 51}},
		"scale":      {func(a Tensor) Tensor { return Scale(a, -2) }, []float64{8, 3, 1, 0, -1, -5, -50}},
		"clamp":      {func(a Tensor) Tensor { return Clamp(a, -1, 3) }, []float64{-1, -1, -0.5, 0, 0.5, 2.5, 3}},
		"fill":       {func(a Tensor) Tensor { return Fill(a, 7) }, []float64{7, 7, 7, 7, 7, 7, 7}},
		"sqr":        {Sqr, []float64{16, 2.25, 0.25, 0, 0.25, 6.25, 625}},
		"abs":        {Abs, []float64{4, 1.5, 0.5, 0, 0.5, 2.5, 25}},
		"neg":        {Neg, []float64{4, 1.5, 0.5, 0, -0.5, -2.5, -25}},
		"sgn":        {Sgn, []float64{-1, -1, -1, 0, 1, 1, 1}},
		"step":       {Step, []float64{0, 0, 0, 0, 1, 1, 1}},
		"floor":      {Floor, []float64{-4, -2, -1, 0, 0, 2, 25}},
		"ceil":       {Ceil, []float64{-4, -1, 0, 0, 1, 3, 25}},
		"round":      {Round, []float64{-4, -2, -1, 0, 1, 3, 25}},
		"trunc":      {Trunc, []float64{-4, -1, 0, 0, 0, 2, 25}},
		"relu":       {Relu, []float64{0, 0, 0, 0, 0.5, 2.5, 25}},
		"leaky relu": {func(a Tensor) Tensor { return LeakyRelu(a, 0.1) }, []float64{-0.4, -0.15, -0.05, 0, 0.5, 2.5, 25}},
		"elu":        {Elu, []float64{math.Exp(-4) - 1, math.Exp(-1.5) - 1, math.Exp(-0.5) - 1, 0, 0.5, 2.5, 25}},
		"hardsigmoid": {HardSigmoid,
			[]float64{0, 0.25, 2.5 / 6, 0.5, 3.5 / 6, 5.5 / 6, 1}},
		"hardswish": {HardSwish,
			[]float64{0, -0.375, -1.25 / 6, 0, 1.75 / 6, 13.75 / 6, 25}},
		"softplus": {Softplus,
			[]float64{math.Log(1 + math.Exp(-4)), math.Log(1 + math.Exp(-1.5)), math.Log(1 + math.Exp(-0.5)), math.Ln2, math.Log(1 + math.Exp(0.5)), math.Log(1 + math.Exp(2.5)), 25}},
	} {
		t.Run(name, func(t *testing.T) { near(t, c.f(From(x)), c.want, 7) })
	}
	near(t, Exp(From([]float64{0, 1})), []float64{1, e}, 2)
	near(t, Expm1(From([]float64{0, 1})), []float64{0, e - 1}, 2)
	near(t, Log(From([]float64{1, e})), []float64{0, 1}, 2)
	near(t, Sqrt(From([]float64{4, 9})), []float64{2, 3}, 2)
	near(t, Sin(From([]float64{0, math.Pi / 6})), []float64{0, 0.5}, 2)
	near(t, Cos(From([]float64{0, math.Pi / 3})), []float64{1, 0.5}, 2)
}

func TestSmoothActivations(t *testing.T) {
	one := From([]float64{1, -1, 0})
	near(t, Sigmoid(From([]float64{0, math.Log(3)})), []float64{0.5, 0.75}, 2)
	near(t, Tanh(From([]float64{0, math.Ln2})), []float64{0, 0.6}, 2)
	near(t, Silu(From([]float64{0, math.Log(3)})), []float64{0, 0.75 * math.Log(3)}, 2)
	// Φ(1) = 0.8413447460685429 is the exact GELU of 1; the others approximate it.
	near(t, GeluErf(one), []float64{0.8413447460685429, -0.15865525393145707, 0}, 3)
	require.InDelta(t, 0.8411919906082768, Gelu(one).Data[0], 1e-12)
	require.InDelta(t, 1/(1+math.Exp(-1.702)), GeluQuick(one).Data[0], 1e-12)
	// With softplus(ln(e−1)) = 1 both constrained parameters are known.
	alpha := math.Log(math.E - 1)
	near(t, Xielu(From([]float64{2, -1}), alpha, alpha, 0.5, 0),
		[]float64{4 + 1, (math.Expm1(-1)+1)*1.5 - 0.5}, 2)
}

func TestGates(t *testing.T) {
	x, g := From([]float64{1, -2}, 2), From([]float64{3, 5}, 2)
	both := Concat(x, g, 0)
	near(t, Gate(ReGLU, both, false), []float64{3, 0}, 2)
	near(t, Gate(ReGLU, both, true), []float64{3, -10}, 2)
	for unit, act := range map[GLU]func(Tensor) Tensor{
		ReGLU: Relu, GeGLU: Gelu, SwiGLU: Silu, GeGLUErf: GeluErf, GeGLUQuick: GeluQuick,
	} {
		near(t, GateSplit(unit, x, g), Mul(act(x), g).Data, 2)
	}
	s := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	near(t, SwiGLUOAI(x, g, 2, 0.5), []float64{0.5 * s(1) * 1.5, -2 * s(-4) * 1.5}, 2)
	near(t, SwiGLUClamp(x, g, 0.5), []float64{0.5 * s(0.5) * 0.5, -2 * s(-2) * 0.5}, 2)
	require.Panics(t, func() { Gate(SwiGLU, New(3), false) })
	require.Panics(t, func() { GateSplit(GLU(99), x, g) })
}
