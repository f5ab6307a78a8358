package ggml_test

import (
	"slices"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func gradCases() []gradCase {
	unary := func(name string, lo, hi float64, build func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor) gradCase {
		return gradCase{
			Name: name, Params: []int{0},
			Operands: func(d *draw) []operand { return []operand{d.Uniform(lo, hi, 6, 3, 2)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0]) },
			Want:     func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	binary := func(name string, build func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor, ref func(a, b refmath.Tensor) refmath.Tensor, b ...int64) gradCase {
		return gradCase{
			Name: name, Params: []int{0, 1},
			Operands: func(d *draw) []operand { return []operand{d.Uniform(0.5, 2, 6, 4, 2), d.Uniform(0.5, 2, b...)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0], x[1]) },
			Want:     func(x refs) refmath.Tensor { return ref(x[0], x[1]) },
		}
	}
	part := [3]int64{6, 18, 36}
	bytes := [3]int64{24, 72, 144}
	return []gradCase{
		binary("add", (*ctx).Add, refmath.Add, 6, 4, 2), binary("add_repeated", (*ctx).Add, refmath.Add, 6),
		binary("sub", (*ctx).Sub, refmath.Sub, 6, 4, 2),
		binary("mul", (*ctx).Mul, refmath.Mul, 6, 4, 2), binary("mul_repeated", (*ctx).Mul, refmath.Mul, 6),
		binary("div", (*ctx).Div, refmath.Div, 6, 4, 2),
		unary("scale", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Scale(a, -1.5) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Scale(a, -1.5) }),
		unary("scale_bias", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ScaleBias(a, -1.5, 2) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.ScaleBias(a, -1.5, 2) }),
		unary("sqr", -2, 2, (*ctx).Sqr, refmath.Sqr), unary("sqrt", 0.5, 2, (*ctx).Sqrt, refmath.Sqrt),
		unary("log", 0.5, 2, (*ctx).Log, refmath.Log), unary("sin", -2, 2, (*ctx).Sin, refmath.Sin),
		unary("cos", -2, 2, (*ctx).Cos, refmath.Cos), unary("sum", -2, 2, (*ctx).Sum, refmath.Sum),
		unary("sum_rows", -2, 2, (*ctx).SumRows, refmath.SumRows), unary("mean", -2, 2, (*ctx).Mean, refmath.Mean),
		unary("abs", 0.1, 2, (*ctx).Abs, refmath.Abs), unary("neg", -2, 2, (*ctx).Neg, refmath.Neg),
		unary("relu", 0.1, 2, (*ctx).Relu, refmath.Relu), unary("silu", -3, 3, (*ctx).Silu, refmath.Silu),
		unary("exp", -2, 2, (*ctx).Exp, refmath.Exp), unary("expm1", -2, 2, (*ctx).Expm1, refmath.Expm1),
		unary("softplus", -2, 2, (*ctx).Softplus, refmath.Softplus),
		unary("dup", -2, 2, (*ctx).Dup, refmath.Cont),
		unary("rms_norm", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.RMSNorm(a, 1e-2) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.RMSNorm(a, 1e-2) }),
		unary("cont", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Permute(a, [4]int{1, 0, 2, 3})) }, refmath.Transpose),
		unary("reshape", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Reshape(a, 9, 4) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Reshape(a, 9, 4) }),
		unary("transpose", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Transpose(a)) }, refmath.Transpose),
		unary("permute", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Permute(a, [4]int{2, 0, 1, 3})) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Permute(a, 2, 0, 1, 3) }),
		unary("view", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor {
			return c.Cont(c.View(a, []int64{4, 2, 2}, []int64{24, 72}, 28))
		}, func(a refmath.Tensor) refmath.Tensor {
			return refmath.View(a, [4]int64{4, 2, 2, 1}, [3]int64{6, 18, 0}, 7)
		}),
		unary("repeat", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Repeat(a, 12, 3, 4) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Repeat(a, 12, 3, 4) }),
		unary("repeat_back", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor {
			return c.RepeatBack(a, c.Fill(c.NewTensor(ggml.F32, 3, 1, 2), 0))
		},
			func(a refmath.Tensor) refmath.Tensor { return refmath.RepeatBack(a, 3, 1, 2) }),
		unary("cast", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Cast(a, ggml.F32) }, refmath.Cont),
		{
			Name: "copy", Params: []int{0},
			Operands: func(d *draw) []operand { return []operand{d.Normal(6, 3, 2), d.Normal(9, 4)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Copy(x[0], x[1]) },
			Want:     func(x refs) refmath.Tensor { return refmath.Reshape(x[0], 9, 4) },
		},
		unary("soft_max", -2, 2, (*ctx).SoftMax, refmath.SoftMax),
		{
			Name: "soft_max_ext", Params: []int{0},
			Operands: func(d *draw) []operand { return []operand{d.Normal(7, 3, 2), d.Normal(7, 3)} },
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.SoftMaxExt(x[0], ggml.SoftMaxOptions{Mask: x[1], Scale: 0.5})
			},
			Want: func(x refs) refmath.Tensor { return refmath.SoftMaxExt(x[0], x[1], refmath.Tensor{}, 0.5, 0) },
		},
		{
			Name: "mul_mat", Params: []int{0, 1},
			Operands: func(d *draw) []operand { return []operand{d.Normal(5, 4), d.Normal(5, 3)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) },
			Want:     func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
		},
		{
			// In grouped attention several queries share a key.
			Name: "mul_mat_repeated", Params: []int{0, 1},
			Operands: func(d *draw) []operand { return []operand{d.Normal(5, 4, 2), d.Normal(5, 3, 4)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) },
			Want:     func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
		},
		{
			Name: "get_rows", Params: []int{0},
			Operands: func(d *draw) []operand { return []operand{d.Normal(5, 4), d.Indices(4, 7)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.GetRows(x[0], x[1]) },
			Want:     func(x refs) refmath.Tensor { return refmath.GetRows(x[0], x[1]) },
		},
		{
			Name: "acc", Params: []int{0, 1},
			Operands: func(d *draw) []operand { return []operand{d.Normal(6, 3, 2), d.Normal(4, 2)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Acc(x[0], x[1], bytes, 4) },
			Want:     func(x refs) refmath.Tensor { return refmath.Acc(x[0], x[1], part, 1) },
		},
		{
			Name: "set", Params: []int{0, 1},
			Operands: func(d *draw) []operand { return []operand{d.Normal(6, 3, 2), d.Normal(4, 2)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Set(x[0], x[1], bytes, 4) },
			Want:     func(x refs) refmath.Tensor { return refmath.Set(x[0], x[1], part, 1) },
		},
		{
			Name: "glu_split", Params: []int{0, 1},
			Operands: func(d *draw) []operand { return []operand{d.Normal(6, 3, 2), d.Normal(6, 3, 2)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.GLUSplit(ggml.SwiGLU, x[0], x[1]) },
			Want:     func(x refs) refmath.Tensor { return refmath.GateSplit(refmath.SwiGLU, x[0], x[1]) },
		},
		{
			Name: "cross_entropy_loss", Params: []int{0},
			Operands: func(d *draw) []operand {
				labels := refmath.SoftMax(refmath.Normal(d.Rand, 1, 6, 4))
				return []operand{d.Normal(6, 4), operand{Values: labels}.As(ggml.F32)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.CrossEntropyLoss(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.CrossEntropyLoss(x[0], x[1]) },
		},
	}
}

func allGradCases() []gradCase {
	return slices.Concat(gradCases(), convGradCases(), ropeGradCases(), numberedGradCases())
}

func TestGradients(t *testing.T) { optest.RunGradients(t, allGradCases()) }
