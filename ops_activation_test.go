package ggml_test

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func unaryCases() []opCase {
	unary := func(name string, build func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor, lo, hi float64, bound *optest.Bound) opCase {
		return opCase{
			Name: name, Types: optest.FloatTypes, Layouts: optest.ContiguousRows, Bound: bound,
			Operands: func(d *draw) []operand { ne := d.Shape(); return []operand{d.Uniform(lo, hi, ne[:]...)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0]) },
			Want:     func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	return []opCase{
		unary("sqr", (*ctx).Sqr, refmath.Sqr, -3, 3, optest.FewRoundings),
		unary("sqrt", (*ctx).Sqrt, refmath.Sqrt, 0, 9, optest.FewRoundings),
		unary("log", (*ctx).Log, refmath.Log, 0.01, 9, optest.FewRoundings),
		unary("sin", (*ctx).Sin, refmath.Sin, -7, 7, optest.Sine),
		unary("cos", (*ctx).Cos, refmath.Cos, -7, 7, optest.Sine),
		unary("abs", (*ctx).Abs, refmath.Abs, -3, 3, optest.Exact),
		unary("sgn", (*ctx).Sgn, refmath.Sgn, -3, 3, optest.Exact),
		unary("neg", (*ctx).Neg, refmath.Neg, -3, 3, optest.Exact),
		unary("step", (*ctx).Step, refmath.Step, -3, 3, optest.Exact),
		unary("tanh", (*ctx).Tanh, refmath.Tanh, -5, 5, optest.FewRoundings),
		unary("elu", (*ctx).Elu, refmath.Elu, -5, 5, optest.FewRoundings),
		unary("relu", (*ctx).Relu, refmath.Relu, -3, 3, optest.Exact),
		unary("sigmoid", (*ctx).Sigmoid, refmath.Sigmoid, -9, 9, optest.FewRoundings),
		unary("gelu", (*ctx).Gelu, refmath.Gelu, -9, 9, optest.F16Table),
		unary("gelu_quick", (*ctx).GeluQuick, refmath.GeluQuick, -9, 9, optest.F16Table),
		unary("gelu_erf", (*ctx).GeluErf, refmath.GeluErf, -9, 9, optest.VectorExp),
		unary("silu", (*ctx).Silu, refmath.Silu, -9, 9, optest.VectorExp),
		unary("hardswish", (*ctx).HardSwish, refmath.HardSwish, -5, 5, optest.FewRoundings),
		unary("hardsigmoid", (*ctx).HardSigmoid, refmath.HardSigmoid, -5, 5, optest.FewRoundings),
		unary("exp", (*ctx).Exp, refmath.Exp, -5, 3, optest.FewRoundings),
		unary("expm1", (*ctx).Expm1, refmath.Expm1, -5, 3, optest.FewRoundings),
		unary("softplus", (*ctx).Softplus, refmath.Softplus, -30, 30, optest.FewRoundings),
		unary("floor", (*ctx).Floor, refmath.Floor, -5, 5, optest.Exact),
		unary("ceil", (*ctx).Ceil, refmath.Ceil, -5, 5, optest.Exact),
		unary("round", (*ctx).Round, refmath.Round, -5, 5, optest.Exact),
		unary("trunc", (*ctx).Trunc, refmath.Trunc, -5, 5, optest.Exact),
		func() opCase {
			k := unary("leaky_relu", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.LeakyRelu(a, 0.1) },
				func(a refmath.Tensor) refmath.Tensor { return refmath.LeakyRelu(a, 0.1) }, -3, 3, optest.FewRoundings)
			k.Types, k.Layouts = []ggml.Type{ggml.F32, ggml.F16}, optest.ContiguousOnly
			return k
		}(),
		func() opCase {
			k := unary("clamp", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Clamp(a, -0.5, 1) },
				func(a refmath.Tensor) refmath.Tensor { return refmath.Clamp(a, -0.5, 1) }, -3, 3, optest.Exact)
			k.Types = []ggml.Type{ggml.F32, ggml.F16}
			return k
		}(),
	}
}

func gluCases() []opCase {
	units := []struct {
		name  string
		unit  ggml.GLU
		ref   refmath.GLU
		bound *optest.Bound
	}{
		{"reglu", ggml.ReGLU, refmath.ReGLU, optest.FewRoundings},
		{"geglu", ggml.GeGLU, refmath.GeGLU, optest.F16Table},
		{"swiglu", ggml.SwiGLU, refmath.SwiGLU, optest.VectorExp},
		{"geglu_erf", ggml.GeGLUErf, refmath.GeGLUErf, optest.VectorExp},
		{"geglu_quick", ggml.GeGLUQuick, refmath.GeGLUQuick, optest.F16Table},
	}
	var cases []opCase
	for _, u := range units {
		for _, swap := range []bool{false, true} {
			name := u.name
			if swap {
				name += "_swapped"
			}
			cases = append(cases, opCase{
				Name: name, Types: optest.FloatTypes, Layouts: optest.UniformRows, Bound: u.bound,
				Operands: func(d *draw) []operand { ne := d.Shape(); return []operand{d.Normal(2*ne[0], ne[1], ne[2], ne[3])} },
				Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.GLU(u.unit, x[0], swap) },
				Want:     func(x refs) refmath.Tensor { return refmath.Gate(u.ref, x[0], swap) },
			})
		}
		cases = append(cases, opCase{
			Name: u.name + "_split", Types: optest.FloatTypes, Layouts: optest.UniformRows, Bound: u.bound,
			Operands: func(d *draw) []operand { ne := d.Shape(); return []operand{d.Normal(ne[:]...), d.Normal(ne[:]...)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.GLUSplit(u.unit, x[0], x[1]) },
			Want:     func(x refs) refmath.Tensor { return refmath.GateSplit(u.ref, x[0], x[1]) },
		})
	}
	return cases
}

func gatedCases() []opCase {
	return []opCase{
		{
			Name: "xielu", Types: optest.FloatTypes, Layouts: optest.UniformRows, Bound: optest.VectorExp, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.XIELU(x[0], ggml.XIELUParams{AlphaN: 0.5, AlphaP: 0.75, Beta: 0.5, Eps: -0.125})
			},
			Want: func(x refs) refmath.Tensor { return refmath.Xielu(x[0], 0.5, 0.75, 0.5, -0.125) },
		},
		{
			Name: "swiglu_oai", Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.UniformRows, Bound: optest.VectorExp, Operands: pair,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SwiGLUOAI(x[0], x[1], 1.5, 0.75) },
			Want:  func(x refs) refmath.Tensor { return refmath.SwiGLUOAI(x[0], x[1], 1.5, 0.75) },
		},
		{
			Name: "swiglu_clamp", Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.UniformRows, Bound: optest.VectorExp, Operands: pair,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SwiGLUClamp(x[0], x[1], 0.75) },
			Want:  func(x refs) refmath.Tensor { return refmath.SwiGLUClamp(x[0], x[1], 0.75) },
		},
	}
}
