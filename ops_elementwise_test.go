package ggml_test

import (
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

type (
	ctx     = ggml.Context
	tensors = []*ggml.Tensor
	refs    = []refmath.Tensor
)

var floatTypes = []ggml.Type{ggml.F32, ggml.F16, ggml.BF16}

// repeated draws a shape that can be repeated to ne.
func (d *draw) repeated(ne [4]int64) [4]int64 {
	for i, n := range ne {
		switch d.IntN(3) {
		case 0:
			ne[i] = 1
		case 1:
			if n%2 == 0 {
				ne[i] = n / 2
			}
		}
	}
	return ne
}

func TestBinaryOps(t *testing.T) { runOps(t, binaryCases()) }

func binaryCases() []opCase {
	binary := func(name string, build func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor, ref func(a, b refmath.Tensor) refmath.Tensor) []opCase {
		k := opCase{
			name: name, types: floatTypes, layouts: denseRows, bound: few,
			args: func(d *draw) []arg {
				ne := d.shape()
				small := d.repeated(ne)
				b := d.uniform(0.5, 2, small[:]...)
				b.layout = dense
				return []arg{d.normal(ne[:]...), b}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return ref(x[0], x[1]) },
		}
		// The second operand in F32, and not dense.
		mixed := k
		mixed.name += "_f32"
		mixed.types = []ggml.Type{ggml.F16, ggml.BF16}
		mixed.args = func(d *draw) []arg {
			ne := d.shape()
			return []arg{d.normal(ne[:]...), d.uniform(0.5, 2, ne[:]...).as(ggml.F32)}
		}
		second := k
		second.name += "_layouts"
		second.args = func(d *draw) []arg {
			ne := d.shape()
			b := d.uniform(0.5, 2, ne[:]...)
			b.layout = anyLayout[d.IntN(len(anyLayout))]
			return []arg{d.normal(ne[:]...), b}
		}
		return []opCase{k, mixed, second}
	}
	var cases []opCase
	cases = append(cases, binary("add", (*ctx).Add, refmath.Add)...)
	cases = append(cases, binary("add_inplace", (*ctx).AddInPlace, refmath.Add)...)
	cases = append(cases, binary("sub", (*ctx).Sub, refmath.Sub)...)
	cases = append(cases, binary("mul", (*ctx).Mul, refmath.Mul)...)
	cases = append(cases, binary("div", (*ctx).Div, refmath.Div)...)
	return cases
}

func TestUnaryOps(t *testing.T) { runOps(t, unaryCases()) }

func unaryCases() []opCase {
	unary := func(name string, build func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor, lo, hi float64, bound *bound) opCase {
		return opCase{
			name: name, types: floatTypes, layouts: denseRows, bound: bound,
			args:  func(d *draw) []arg { ne := d.shape(); return []arg{d.uniform(lo, hi, ne[:]...)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0]) },
			want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	return []opCase{
		unary("sqr", (*ctx).Sqr, refmath.Sqr, -3, 3, few),
		unary("sqrt", (*ctx).Sqrt, refmath.Sqrt, 0, 9, few),
		unary("log", (*ctx).Log, refmath.Log, 0.01, 9, few),
		unary("sin", (*ctx).Sin, refmath.Sin, -7, 7, few),
		unary("cos", (*ctx).Cos, refmath.Cos, -7, 7, few),
		unary("abs", (*ctx).Abs, refmath.Abs, -3, 3, exact),
		unary("sgn", (*ctx).Sgn, refmath.Sgn, -3, 3, exact),
		unary("neg", (*ctx).Neg, refmath.Neg, -3, 3, exact),
		unary("step", (*ctx).Step, refmath.Step, -3, 3, exact),
		unary("tanh", (*ctx).Tanh, refmath.Tanh, -5, 5, few),
		unary("elu", (*ctx).Elu, refmath.Elu, -5, 5, few),
		unary("relu", (*ctx).Relu, refmath.Relu, -3, 3, exact),
		unary("sigmoid", (*ctx).Sigmoid, refmath.Sigmoid, -9, 9, few),
		unary("gelu", (*ctx).Gelu, refmath.Gelu, -9, 9, table),
		unary("gelu_quick", (*ctx).GeluQuick, refmath.GeluQuick, -9, 9, table),
		unary("gelu_erf", (*ctx).GeluErf, refmath.GeluErf, -9, 9, fast),
		unary("silu", (*ctx).Silu, refmath.Silu, -9, 9, fast),
		unary("hardswish", (*ctx).HardSwish, refmath.HardSwish, -5, 5, few),
		unary("hardsigmoid", (*ctx).HardSigmoid, refmath.HardSigmoid, -5, 5, few),
		unary("exp", (*ctx).Exp, refmath.Exp, -5, 3, few),
		unary("expm1", (*ctx).Expm1, refmath.Expm1, -5, 3, few),
		unary("softplus", (*ctx).Softplus, refmath.Softplus, -30, 30, few),
		unary("floor", (*ctx).Floor, refmath.Floor, -5, 5, exact),
		unary("ceil", (*ctx).Ceil, refmath.Ceil, -5, 5, exact),
		unary("round", (*ctx).Round, refmath.Round, -5, 5, exact),
		unary("trunc", (*ctx).Trunc, refmath.Trunc, -5, 5, exact),
		func() opCase {
			k := unary("leaky_relu", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.LeakyRelu(a, 0.1) },
				func(a refmath.Tensor) refmath.Tensor { return refmath.LeakyRelu(a, 0.1) }, -3, 3, few)
			k.types, k.layouts = []ggml.Type{ggml.F32, ggml.F16}, denseOnly
			return k
		}(),
		func() opCase {
			k := unary("clamp", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Clamp(a, -0.5, 1) },
				func(a refmath.Tensor) refmath.Tensor { return refmath.Clamp(a, -0.5, 1) }, -3, 3, exact)
			k.types = []ggml.Type{ggml.F32, ggml.F16}
			return k
		}(),
	}
}

func TestScalarOps(t *testing.T) { runOps(t, scalarCases()) }

func scalarCases() []opCase {
	one := func(d *draw) []arg { ne := d.shape(); return []arg{d.normal(ne[:]...)} }
	return []opCase{
		{
			name: "scale", types: []ggml.Type{ggml.F32, ggml.BF16}, layouts: denseOnly, bound: few, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Scale(x[0], -1.5) },
			want:  func(x refs) refmath.Tensor { return refmath.Scale(x[0], -1.5) },
		},
		{
			name: "scale_bias", types: []ggml.Type{ggml.F32, ggml.BF16}, layouts: denseOnly, bound: few, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.ScaleBias(x[0], 2.5, -0.25) },
			want:  func(x refs) refmath.Tensor { return refmath.ScaleBias(x[0], 2.5, -0.25) },
		},
		{
			name: "fill", types: []ggml.Type{ggml.F32, ggml.F16}, layouts: denseOnly, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Fill(x[0], 2.5) },
			want:  func(x refs) refmath.Tensor { return refmath.Fill(x[0], 2.5) },
		},
		{
			name: "arange", args: func(*draw) []arg { return nil }, bound: few,
			build: func(c *ctx, _ tensors) *ggml.Tensor { return c.Arange(-1, 7.5, 0.75) },
			want:  func(refs) refmath.Tensor { return refmath.Arange(-1, 7.5, 0.75) },
		},
	}
}

func TestGatedOps(t *testing.T) { runOps(t, gluCases()) }

func gluCases() []opCase {
	units := []struct {
		name  string
		unit  ggml.GLU
		ref   refmath.GLU
		bound *bound
	}{
		{"reglu", ggml.ReGLU, refmath.ReGLU, few},
		{"geglu", ggml.GeGLU, refmath.GeGLU, table},
		{"swiglu", ggml.SwiGLU, refmath.SwiGLU, fast},
		{"geglu_erf", ggml.GeGLUErf, refmath.GeGLUErf, fast},
		{"geglu_quick", ggml.GeGLUQuick, refmath.GeGLUQuick, table},
	}
	var cases []opCase
	for _, u := range units {
		for _, swap := range []bool{false, true} {
			name := u.name
			if swap {
				name += "_swapped"
			}
			cases = append(cases, opCase{
				name: name, types: floatTypes, layouts: evenRows, bound: u.bound,
				args:  func(d *draw) []arg { ne := d.shape(); return []arg{d.normal(2*ne[0], ne[1], ne[2], ne[3])} },
				build: func(c *ctx, x tensors) *ggml.Tensor { return c.GLU(u.unit, x[0], swap) },
				want:  func(x refs) refmath.Tensor { return refmath.Gate(u.ref, x[0], swap) },
			})
		}
		cases = append(cases, opCase{
			name: u.name + "_split", types: floatTypes, layouts: evenRows, bound: u.bound,
			args:  func(d *draw) []arg { ne := d.shape(); return []arg{d.normal(ne[:]...), d.normal(ne[:]...)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.GLUSplit(u.unit, x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.GateSplit(u.ref, x[0], x[1]) },
		})
	}
	return cases
}
