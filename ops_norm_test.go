package ggml_test

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func normCases() []opCase {
	unary := func(name string, build func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor) opCase {
		return opCase{
			Name: name, Layouts: optest.AnyLayout, Bound: optest.LongSum, Operands: func(d *draw) []operand {
				ne := d.Shape()
				return []operand{d.Normal(ne[0]+3, ne[1], ne[2], ne[3])}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0]) },
			Want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	group := unary("group_norm", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.GroupNorm(a, 2, eps) },
		func(a refmath.Tensor) refmath.Tensor { return refmath.GroupNorm(a, 2, eps64) })
	group.Layouts = optest.ContiguousOnly
	group.Operands = func(d *draw) []operand { return []operand{d.Normal(2+d.Size(9), d.Size(4), 2*d.Size(3), d.Size(2))} }
	rms := unary("rms_norm", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.RMSNorm(a, eps) },
		func(a refmath.Tensor) refmath.Tensor { return refmath.RMSNorm(a, eps64) })
	rms.Layouts = optest.ContiguousRows
	return []opCase{
		group, rms,
		unary("norm", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Norm(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Norm(a, eps64) }),
		unary("l2_norm", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.L2Norm(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.L2Norm(a, eps64) }),
	}
}
