package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// inPlace makes a case of an op that changes its first operand.
func inPlace(k opCase) opCase {
	k.inPlace = true
	return k
}

func TestUnaryInPlace(t *testing.T) { runOps(t, unaryInPlaceCases()) }

func unaryInPlaceCases() []opCase {
	ops := []struct {
		name   string
		op     func(c *ctx, a *ggml.Tensor) *ggml.Tensor
		ref    func(a refmath.Tensor) refmath.Tensor
		lo, hi float64
		bound  *bound
	}{
		{"sqr", (*ctx).SqrInPlace, refmath.Sqr, -3, 3, few},
		{"sqrt", (*ctx).SqrtInPlace, refmath.Sqrt, 0, 9, few},
		{"log", (*ctx).LogInPlace, refmath.Log, 0.01, 9, few},
		{"sin", (*ctx).SinInPlace, refmath.Sin, -7, 7, few},
		{"cos", (*ctx).CosInPlace, refmath.Cos, -7, 7, few},
		{"abs", (*ctx).AbsInPlace, refmath.Abs, -3, 3, exact},
		{"sgn", (*ctx).SgnInPlace, refmath.Sgn, -3, 3, exact},
		{"neg", (*ctx).NegInPlace, refmath.Neg, -3, 3, exact},
		{"step", (*ctx).StepInPlace, refmath.Step, -3, 3, exact},
		{"tanh", (*ctx).TanhInPlace, refmath.Tanh, -5, 5, few},
		{"elu", (*ctx).EluInPlace, refmath.Elu, -5, 5, few},
		{"relu", (*ctx).ReluInPlace, refmath.Relu, -3, 3, exact},
		{"sigmoid", (*ctx).SigmoidInPlace, refmath.Sigmoid, -9, 9, few},
		{"gelu", (*ctx).GeluInPlace, refmath.Gelu, -9, 9, table},
		{"gelu_quick", (*ctx).GeluQuickInPlace, refmath.GeluQuick, -9, 9, table},
		{"gelu_erf", (*ctx).GeluErfInPlace, refmath.GeluErf, -9, 9, fast},
		{"silu", (*ctx).SiluInPlace, refmath.Silu, -9, 9, fast},
		{"hardswish", (*ctx).HardSwishInPlace, refmath.HardSwish, -5, 5, few},
		{"hardsigmoid", (*ctx).HardSigmoidInPlace, refmath.HardSigmoid, -5, 5, few},
		{"exp", (*ctx).ExpInPlace, refmath.Exp, -5, 3, few},
		{"expm1", (*ctx).Expm1InPlace, refmath.Expm1, -5, 3, few},
		{"softplus", (*ctx).SoftplusInPlace, refmath.Softplus, -30, 30, few},
		{"floor", (*ctx).FloorInPlace, refmath.Floor, -5, 5, exact},
		{"ceil", (*ctx).CeilInPlace, refmath.Ceil, -5, 5, exact},
		{"round", (*ctx).RoundInPlace, refmath.Round, -5, 5, exact},
		{"trunc", (*ctx).TruncInPlace, refmath.Trunc, -5, 5, exact},
	}
	var cases []opCase
	for _, k := range ops {
		cases = append(cases, inPlace(opCase{
			name: k.name + "_inplace", types: floatTypes, layouts: denseRows, bound: k.bound, runs: 5,
			args:  func(d *draw) []arg { ne := d.shape(); return []arg{d.uniform(k.lo, k.hi, ne[:]...)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return k.op(c, x[0]) },
			want:  func(x refs) refmath.Tensor { return k.ref(x[0]) },
		}))
	}
	return cases
}

func TestBinaryInPlace(t *testing.T) { runOps(t, binaryInPlaceCases()) }

func binaryInPlaceCases() []opCase {
	binary := func(name string, op func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor, ref func(a, b refmath.Tensor) refmath.Tensor) opCase {
		return inPlace(opCase{
			name: name, types: floatTypes, layouts: denseRows, bound: few,
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
		return inPlace(opCase{
			name: name, layouts: denseOnly, bound: few,
			args: func(d *draw) []arg {
				return []arg{d.normal(9, 5, 3, 2), d.normal(d.size(5), d.size(3), d.size(3), 2)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor {
				return op(c, x[0], x[1], [3]int64{36, 180, 540}, 36+8)
			},
			want: func(x refs) refmath.Tensor { return ref(x[0], x[1], [3]int64{9, 45, 135}, 11) },
		})
	}
	return []opCase{
		binary("sub_inplace", (*ctx).SubInPlace, refmath.Sub),
		binary("mul_inplace", (*ctx).MulInPlace, refmath.Mul),
		binary("div_inplace", (*ctx).DivInPlace, refmath.Div),
		part("acc_inplace", (*ctx).AccInPlace, refmath.Acc),
		part("set_inplace", (*ctx).SetInPlace, refmath.Set),
	}
}

func TestRowsInPlace(t *testing.T) { runOps(t, rowsInPlaceCases()) }

func rowsInPlaceCases() []opCase {
	dup := inPlace(opCase{
		name: "dup_inplace", types: movedTypes, layouts: denseOnly, args: one,
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.DupInPlace(x[0]) },
		want:  func(x refs) refmath.Tensor { return x[0] },
	})
	unary := func(name string, layouts []layout, bound *bound, op func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor) opCase {
		return inPlace(opCase{
			name: name + "_inplace", layouts: layouts, bound: bound, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return op(c, x[0]) },
			want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		})
	}
	masked := inPlace(opCase{
		name: "soft_max_ext_inplace", layouts: denseOnly, bound: fast,
		args: func(d *draw) []arg {
			ne := d.shape()
			return []arg{d.normal(ne[:]...), d.normal(ne[0], ne[1]+2)}
		},
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxExtInPlace(x[0], x[1], 0.5, 8) },
		want: func(x refs) refmath.Tensor {
			return refmath.SoftMaxExt(x[0], x[1], refmath.Tensor{}, 0.5, 8)
		},
	})
	back := inPlace(opCase{
		name: "soft_max_back_inplace", layouts: denseOnly, bound: sums, args: pair,
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxBackInPlace(x[0], x[1], 0.5) },
		want:  func(x refs) refmath.Tensor { return refmath.SoftMaxExtBack(x[0], x[1], 0.5) },
	})
	rope := inPlace(opCase{
		name: "rope_inplace", types: []ggml.Type{ggml.F32, ggml.F16}, layouts: denseRows, bound: angles,
		args: func(d *draw) []arg {
			tokens := d.size(5)
			return []arg{d.normal(16, d.size(3), tokens, d.size(2)), d.ids(100, tokens)}
		},
		build: func(c *ctx, x tensors) *ggml.Tensor {
			return c.RoPEInPlace(x[0], x[1], nil, ggml.RoPE{Dims: 12, Mode: ggml.RoPENeoX, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1})
		},
		want: func(x refs) refmath.Tensor { return refmath.RopeExt(x[0], x[1], refmath.NewRoPE(12, true)) },
	})
	clamp := unary("clamp", denseOnly, exact, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ClampInPlace(a, -0.5, 1) },
		func(a refmath.Tensor) refmath.Tensor { return refmath.Clamp(a, -0.5, 1) })
	clamp.types = []ggml.Type{ggml.F32, ggml.F16}
	leaky := unary("leaky_relu", denseOnly, few, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.LeakyReluInPlace(a, 0.1) },
		func(a refmath.Tensor) refmath.Tensor { return refmath.LeakyRelu(a, 0.1) })
	leaky.types = clamp.types
	return []opCase{
		masked, back, rope, clamp, leaky, dup,
		unary("scale", denseOnly, few, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ScaleInPlace(a, -1.5) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Scale(a, -1.5) }),
		unary("scale_bias", denseOnly, few, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ScaleBiasInPlace(a, 2.5, -0.25) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.ScaleBias(a, 2.5, -0.25) }),
		unary("fill", denseOnly, exact, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.FillInPlace(a, 2.5) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Fill(a, 2.5) }),
		unary("norm", denseRows, sums, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.NormInPlace(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Norm(a, eps64) }),
		unary("rms_norm", denseRows, sums, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.RMSNormInPlace(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.RMSNorm(a, eps64) }),
		unary("l2_norm", denseRows, sums, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.L2NormInPlace(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.L2Norm(a, eps64) }),
		unary("group_norm", denseOnly, sums, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.GroupNormInPlace(a, 1, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.GroupNorm(a, 1, eps64) }),
		unary("soft_max", denseOnly, fast, (*ctx).SoftMaxInPlace, refmath.SoftMax),
		unary("diag_mask_inf", denseOnly, exact, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.DiagMaskInfInPlace(a, 2) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.DiagMaskInf(a, 2) }),
		unary("diag_mask_zero", denseOnly, exact, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.DiagMaskZeroInPlace(a, 2) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.DiagMaskZero(a, 2) }),
	}
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
