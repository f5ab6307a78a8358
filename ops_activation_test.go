package ggml_test

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// unaries are the element-wise ops without parameters, with the range of their operands.
var unaries = []struct {
	name        string
	op, inPlace func(c *ctx, a *ggml.Tensor) *ggml.Tensor
	ref         func(a refmath.Tensor) refmath.Tensor
	lo, hi      float64
	bound       *optest.Bound
}{
	{"sqr", (*ctx).Sqr, (*ctx).SqrInPlace, refmath.Sqr, -3, 3, optest.FewRoundings},
	{"sqrt", (*ctx).Sqrt, (*ctx).SqrtInPlace, refmath.Sqrt, 0, 9, optest.FewRoundings},
	{"log", (*ctx).Log, (*ctx).LogInPlace, refmath.Log, 0.01, 9, optest.FewRoundings},
	{"sin", (*ctx).Sin, (*ctx).SinInPlace, refmath.Sin, -7, 7, optest.Sine},
	{"cos", (*ctx).Cos, (*ctx).CosInPlace, refmath.Cos, -7, 7, optest.Sine},
	{"abs", (*ctx).Abs, (*ctx).AbsInPlace, refmath.Abs, -3, 3, optest.Exact},
	{"sgn", (*ctx).Sgn, (*ctx).SgnInPlace, refmath.Sgn, -3, 3, optest.Exact},
	{"neg", (*ctx).Neg, (*ctx).NegInPlace, refmath.Neg, -3, 3, optest.Exact},
	{"step", (*ctx).Step, (*ctx).StepInPlace, refmath.Step, -3, 3, optest.Exact},
	{"tanh", (*ctx).Tanh, (*ctx).TanhInPlace, refmath.Tanh, -5, 5, optest.FewRoundings},
	{"elu", (*ctx).Elu, (*ctx).EluInPlace, refmath.Elu, -5, 5, optest.FewRoundings},
	{"relu", (*ctx).Relu, (*ctx).ReluInPlace, refmath.Relu, -3, 3, optest.Exact},
	{"sigmoid", (*ctx).Sigmoid, (*ctx).SigmoidInPlace, refmath.Sigmoid, -9, 9, optest.FewRoundings},
	{"gelu", (*ctx).Gelu, (*ctx).GeluInPlace, refmath.Gelu, -9, 9, optest.F16Table},
	{"gelu_quick", (*ctx).GeluQuick, (*ctx).GeluQuickInPlace, refmath.GeluQuick, -9, 9, optest.F16Table},
	{"gelu_erf", (*ctx).GeluErf, (*ctx).GeluErfInPlace, refmath.GeluErf, -9, 9, optest.VectorExp},
	{"silu", (*ctx).Silu, (*ctx).SiluInPlace, refmath.Silu, -9, 9, optest.VectorExp},
	{"hardswish", (*ctx).HardSwish, (*ctx).HardSwishInPlace, refmath.HardSwish, -5, 5, optest.FewRoundings},
	{"hardsigmoid", (*ctx).HardSigmoid, (*ctx).HardSigmoidInPlace, refmath.HardSigmoid, -5, 5, optest.FewRoundings},
	{"exp", (*ctx).Exp, (*ctx).ExpInPlace, refmath.Exp, -5, 3, optest.FewRoundings},
	{"expm1", (*ctx).Expm1, (*ctx).Expm1InPlace, refmath.Expm1, -5, 3, optest.FewRoundings},
	{"softplus", (*ctx).Softplus, (*ctx).SoftplusInPlace, refmath.Softplus, -30, 30, optest.FewRoundings},
	{"floor", (*ctx).Floor, (*ctx).FloorInPlace, refmath.Floor, -5, 5, optest.Exact},
	{"ceil", (*ctx).Ceil, (*ctx).CeilInPlace, refmath.Ceil, -5, 5, optest.Exact},
	{"round", (*ctx).Round, (*ctx).RoundInPlace, refmath.Round, -5, 5, optest.Exact},
	{"trunc", (*ctx).Trunc, (*ctx).TruncInPlace, refmath.Trunc, -5, 5, optest.Exact},
}

func unaryCases() []opCase {
	var cases []opCase
	for _, u := range unaries {
		k := opCase{
			Name: u.name, Types: optest.FloatTypes, Layouts: optest.ContiguousRows, Bound: u.bound,
			Operands: func(d *draw) []operand { ne := d.Shape(); return []operand{d.Uniform(u.lo, u.hi, ne[:]...)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return u.op(c, x[0]) },
			Want:     func(x refs) refmath.Tensor { return u.ref(x[0]) },
		}
		inPlace := k
		inPlace.Name, inPlace.Runs, inPlace.InPlace = k.Name+"_inplace", 5, true
		inPlace.Build = func(c *ctx, x tensors) *ggml.Tensor { return u.inPlace(c, x[0]) }
		cases = append(cases, k, inPlace)
	}
	halves := []ggml.Type{ggml.F32, ggml.F16}
	return append(cases,
		opCase{
			Name: "leaky_relu", Types: halves, Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.LeakyRelu(x[0], 0.1) },
			Want:  func(x refs) refmath.Tensor { return refmath.LeakyRelu(x[0], 0.1) },
		},
		opCase{
			Name: "clamp", Types: halves, Layouts: optest.ContiguousRows, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Clamp(x[0], -0.5, 1) },
			Want:  func(x refs) refmath.Tensor { return refmath.Clamp(x[0], -0.5, 1) },
		})
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
