package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// inPlace makes a case of an op that changes its first operand; it also demands
// that the result is a view.
func inPlace(t *testing.T, k opCase) opCase {
	build := k.build
	k.build = func(c *ctx, x tensors) *ggml.Tensor {
		y := build(c, x)
		require.NoError(t, c.Err())
		require.True(t, y.IsView(), k.name)
		return y
	}
	return k
}

func TestUnaryInPlace(t *testing.T) {
	cases := []struct {
		name   string
		op     func(c *ctx, a *ggml.Tensor) *ggml.Tensor
		ref    func(a refmath.Tensor) refmath.Tensor
		lo, hi float64
		bound  float64
	}{
		{"sqr", (*ctx).SqrInPlace, refmath.Sqr, -3, 3, 1e-6},
		{"sqrt", (*ctx).SqrtInPlace, refmath.Sqrt, 0, 9, 1e-6},
		{"log", (*ctx).LogInPlace, refmath.Log, 0.01, 9, 1e-6},
		{"sin", (*ctx).SinInPlace, refmath.Sin, -7, 7, 1e-6},
		{"cos", (*ctx).CosInPlace, refmath.Cos, -7, 7, 1e-6},
		{"abs", (*ctx).AbsInPlace, refmath.Abs, -3, 3, 0},
		{"sgn", (*ctx).SgnInPlace, refmath.Sgn, -3, 3, 0},
		{"neg", (*ctx).NegInPlace, refmath.Neg, -3, 3, 0},
		{"step", (*ctx).StepInPlace, refmath.Step, -3, 3, 0},
		{"tanh", (*ctx).TanhInPlace, refmath.Tanh, -5, 5, 1e-6},
		{"elu", (*ctx).EluInPlace, refmath.Elu, -5, 5, 1e-6},
		{"relu", (*ctx).ReluInPlace, refmath.Relu, -3, 3, 0},
		{"sigmoid", (*ctx).SigmoidInPlace, refmath.Sigmoid, -9, 9, 1e-6},
		{"gelu", (*ctx).GeluInPlace, refmath.Gelu, -9, 9, 2e-3},
		{"gelu_quick", (*ctx).GeluQuickInPlace, refmath.GeluQuick, -9, 9, 2e-3},
		{"gelu_erf", (*ctx).GeluErfInPlace, refmath.GeluErf, -9, 9, 1e-5},
		{"silu", (*ctx).SiluInPlace, refmath.Silu, -9, 9, 1e-5},
		{"hardswish", (*ctx).HardSwishInPlace, refmath.HardSwish, -5, 5, 1e-6},
		{"hardsigmoid", (*ctx).HardSigmoidInPlace, refmath.HardSigmoid, -5, 5, 1e-6},
		{"exp", (*ctx).ExpInPlace, refmath.Exp, -5, 3, 1e-6},
		{"expm1", (*ctx).Expm1InPlace, refmath.Expm1, -5, 3, 1e-6},
		{"softplus", (*ctx).SoftplusInPlace, refmath.Softplus, -30, 30, 1e-6},
		{"floor", (*ctx).FloorInPlace, refmath.Floor, -5, 5, 0},
		{"ceil", (*ctx).CeilInPlace, refmath.Ceil, -5, 5, 0},
		{"round", (*ctx).RoundInPlace, refmath.Round, -5, 5, 0},
		{"trunc", (*ctx).TruncInPlace, refmath.Trunc, -5, 5, 0},
	}
	for _, k := range cases {
		runOps(t, []opCase{inPlace(t, opCase{
			name: k.name + "_inplace", types: floatTypes, layouts: denseRows, bound: k.bound, runs: 5,
			args:  func(d *draw) []arg { ne := d.shape(); return []arg{d.uniform(k.lo, k.hi, ne[:]...)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return k.op(c, x[0]) },
			want:  func(x refs) refmath.Tensor { return k.ref(x[0]) },
		})})
	}
}

func TestBinaryInPlace(t *testing.T) {
	binary := func(name string, op func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor, ref func(a, b refmath.Tensor) refmath.Tensor) opCase {
		return inPlace(t, opCase{
			name: name, types: floatTypes, layouts: denseRows, bound: 1e-6,
			args: func(d *draw) []arg {
				ne := d.shape()
				small := d.repeated(ne)
				b := d.uniform(0.5, 2, small[:]...)
				b.layout = dense
				return []arg{d.normal(ne[:]...), b}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return op(c, x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return ref(x[0], x[1]) },
		})
	}
	part := func(name string, op func(c *ctx, a, b *ggml.Tensor, strides [3]int64, offset int64) *ggml.Tensor, ref func(a, b refmath.Tensor, stride [3]int64, offset int64) refmath.Tensor) opCase {
		return inPlace(t, opCase{
			name: name, layouts: denseOnly, bound: 1e-6,
			args: func(d *draw) []arg {
				return []arg{d.normal(9, 5, 3, 2), d.normal(d.size(5), d.size(3), d.size(3), 2)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor {
				return op(c, x[0], x[1], [3]int64{36, 180, 540}, 36+8)
			},
			want: func(x refs) refmath.Tensor { return ref(x[0], x[1], [3]int64{9, 45, 135}, 11) },
		})
	}
	runOps(t, []opCase{
		binary("sub_inplace", (*ctx).SubInPlace, refmath.Sub),
		binary("mul_inplace", (*ctx).MulInPlace, refmath.Mul),
		binary("div_inplace", (*ctx).DivInPlace, refmath.Div),
		part("acc_inplace", (*ctx).AccInPlace, refmath.Acc),
		part("set_inplace", (*ctx).SetInPlace, refmath.Set),
	})
}

func TestRowsInPlace(t *testing.T) {
	unary := func(name string, layouts []layout, bound float64, op func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor) opCase {
		return inPlace(t, opCase{
			name: name + "_inplace", layouts: layouts, bound: bound, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return op(c, x[0]) },
			want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		})
	}
	masked := inPlace(t, opCase{
		name: "soft_max_ext_inplace", layouts: denseOnly, bound: 1e-5,
		args: func(d *draw) []arg {
			ne := d.shape()
			return []arg{d.normal(ne[:]...), d.normal(ne[0], ne[1]+2)}
		},
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxExtInPlace(x[0], x[1], 0.5, 8) },
		want: func(x refs) refmath.Tensor {
			return refmath.SoftMaxExt(x[0], x[1], refmath.Tensor{}, 0.5, 8)
		},
	})
	back := inPlace(t, opCase{
		name: "soft_max_back_inplace", layouts: denseOnly, bound: 1e-5, args: pair,
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxBackInPlace(x[0], x[1], 0.5) },
		want:  func(x refs) refmath.Tensor { return refmath.SoftMaxExtBack(x[0], x[1], 0.5) },
	})
	rope := inPlace(t, opCase{
		name: "rope_inplace", types: []ggml.Type{ggml.F32, ggml.F16}, layouts: denseOnly, bound: 1e-4,
		args: func(d *draw) []arg {
			tokens := d.size(5)
			return []arg{d.normal(16, d.size(3), tokens, d.size(2)), d.ids(100, tokens)}
		},
		build: func(c *ctx, x tensors) *ggml.Tensor {
			return c.RoPEInPlace(x[0], x[1], nil, ggml.RoPE{Dims: 12, Mode: ggml.RoPENeoX, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1})
		},
		want: func(x refs) refmath.Tensor { return refmath.RopeExt(x[0], x[1], refmath.NewRoPE(12, true)) },
	})
	clamp := unary("clamp", denseOnly, 0, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ClampInPlace(a, -0.5, 1) },
		func(a refmath.Tensor) refmath.Tensor { return refmath.Clamp(a, -0.5, 1) })
	clamp.types = []ggml.Type{ggml.F32, ggml.F16}
	leaky := unary("leaky_relu", denseOnly, 1e-6, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.LeakyReluInPlace(a, 0.1) },
		func(a refmath.Tensor) refmath.Tensor { return refmath.LeakyRelu(a, 0.1) })
	leaky.types = clamp.types
	runOps(t, []opCase{
		masked, back, rope, clamp, leaky,
		unary("scale", denseOnly, 1e-6, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ScaleInPlace(a, -1.5) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Scale(a, -1.5) }),
		unary("scale_bias", denseOnly, 1e-6, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ScaleBiasInPlace(a, 2.5, -0.25) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.ScaleBias(a, 2.5, -0.25) }),
		unary("fill", denseOnly, 0, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.FillInPlace(a, 2.5) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Fill(a, 2.5) }),
		unary("norm", denseRows, 1e-4, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.NormInPlace(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Norm(a, eps64) }),
		unary("rms_norm", denseRows, 1e-5, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.RMSNormInPlace(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.RMSNorm(a, eps64) }),
		unary("l2_norm", denseRows, 1e-5, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.L2NormInPlace(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.L2Norm(a, eps64) }),
		unary("group_norm", denseOnly, 1e-4, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.GroupNormInPlace(a, 1, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.GroupNorm(a, 1, eps64) }),
		unary("soft_max", denseOnly, 1e-5, (*ctx).SoftMaxInPlace, refmath.SoftMax),
		unary("diag_mask_inf", denseOnly, 0, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.DiagMaskInfInPlace(a, 2) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.DiagMaskInf(a, 2) }),
		unary("diag_mask_zero", denseOnly, 0, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.DiagMaskZeroInPlace(a, 2) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.DiagMaskZero(a, 2) }),
	})
}

// The operand itself has changed, not only the result.
func TestInPlaceChangesOperand(t *testing.T) {
	m := machines(t)[0]
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	a := leaves.NewTensor(ggml.F32, 3)
	buffers, err := leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	require.NoError(t, ggml.Write(a, []float32{1, -2, 3}))
	m.compute(t, c.NewGraph(c.ScaleInPlace(c.ReluInPlace(a), 2)))
	require.Equal(t, []float32{2, 0, 6}, numbers(t, a))
}
