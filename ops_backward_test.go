package ggml_test

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func backwardCases() []opCase {
	probabilities := func(d *draw) []operand {
		ne := [4]int64{2 + d.Size(40), d.Size(5), 1, 1}
		labels := refmath.SoftMax(refmath.Normal(d.Rand, 1, ne[:]...))
		return []operand{d.F32(1), d.Normal(ne[:]...), operand{Values: labels}.As(ggml.F32)}
	}
	return []opCase{
		{
			Name: "silu_back", Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.ContiguousOnly, Bound: optest.LongSum, Operands: pair,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SiluBack(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.SiluBack(x[0], x[1]) },
		},
		{
			Name: "rms_norm_back", Layouts: optest.ContiguousRows, Bound: optest.Recurrence, Operands: pair,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.RMSNormBack(x[0], x[1], 1e-2) },
			Want:  func(x refs) refmath.Tensor { return refmath.RMSNormBack(x[0], x[1], float64(float32(1e-2))) },
		},
		{
			Name: "soft_max_ext_back", Layouts: optest.ContiguousOnly, Bound: optest.LongSum,
			Operands: func(d *draw) []operand {
				ne := d.Shape()
				y := refmath.SoftMax(refmath.Normal(d.Rand, 1, ne[:]...))
				return []operand{d.Normal(ne[:]...), operand{Values: y}.As(ggml.F32)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxBack(x[0], x[1], 0.5) },
			Want:  func(x refs) refmath.Tensor { return refmath.SoftMaxExtBack(x[0], x[1], 0.5) },
		},
		{
			Name: "cross_entropy_loss", Layouts: optest.ContiguousOnly, Bound: optest.LongSum, Operands: probabilities,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.CrossEntropyLoss(x[1], x[2]) },
			Want:  func(x refs) refmath.Tensor { return refmath.CrossEntropyLoss(x[1], x[2]) },
		},
		{
			Name: "cross_entropy_loss_back", Layouts: optest.ContiguousOnly, Bound: optest.LongSum, Operands: probabilities,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.CrossEntropyLossBack(x[0], x[1], x[2]) },
			Want:  func(x refs) refmath.Tensor { return refmath.CrossEntropyLossBack(x[0], x[1], x[2]) },
		},
	}
}
