package ggml_test

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func optimizerCases() []opCase {
	p := refmath.AdamWAt(3, 0.01, 0.9, 0.99, 1e-8, 0.1)
	sgd := refmath.From([]float64{0.05, 0.1})
	args := func(d *draw) []operand {
		ne := d.Shape()
		m, v := refmath.Normal(d.Rand, 0.1, ne[:]...), refmath.Uniform(d.Rand, 0.01, 0.1, ne[:]...)
		params := p.Tensor()
		return []operand{d.Normal(ne[:]...), d.Normal(ne[:]...), {Values: m}, {Values: v}, {Values: params}, {Values: sgd}}
	}
	adamW := func(c *ctx, x tensors) *ggml.Tensor {
		return c.OptStepAdamW(ggml.AdamWOperands{Param: x[0].SetParam(), Grad: x[1], M: x[2], V: x[3], Settings: x[4]})
	}
	return []opCase{
		{
			Name: "opt_step_adamw", Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Operands: args, Build: adamW, InPlace: true,
			Want: func(x refs) refmath.Tensor {
				w, _, _ := refmath.OptStepAdamW(x[0], x[1], x[2], x[3], p)
				return w
			},
		},
		{
			Name: "opt_step_adamw_moments", Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Operands: args,
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.Concat(c.Concat(adamW(c, x), x[2], 0), x[3], 0)
			},
			Want: func(x refs) refmath.Tensor {
				w, m, v := refmath.OptStepAdamW(x[0], x[1], x[2], x[3], p)
				return refmath.Concat(refmath.Concat(w, m, 0), v, 0)
			},
		},
		{
			Name: "opt_step_sgd", Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Operands: args, InPlace: true,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.OptStepSGD(x[0].SetParam(), x[1], x[5]) },
			Want:  func(x refs) refmath.Tensor { return refmath.OptStepSGD(x[0], x[1], sgd.Data[0], sgd.Data[1]) },
		},
	}
}
