package ggml_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// The library says of many ops that the CPU computes them on types for which
// it has no code. What the checks of this package let through is computed.
func TestAcceptedTypesCompute(t *testing.T) {
	backend := cpuBackend(t, 1)
	alloc := graphAllocator(t)
	try := func(name string, ta, tb ggml.Type, build func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor) bool {
		leaves, c := ggml.NewContext(), ggml.NewContext()
		defer leaves.Close()
		defer c.Close()
		a, b := leaves.NewTensor(ta, 256, 4).SetParam(), leaves.NewTensor(tb, 256, 4)
		y := build(c, a, b)
		if c.Err() != nil || !backend.Device().SupportsOp(y) {
			return false
		}
		buffers, err := leaves.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		defer buffers.Close()
		require.NoError(t, buffers.Clear(0))
		g := c.NewGraph(y)
		require.NoError(t, alloc.Alloc(g))
		require.NoError(t, backend.Compute(context.Background(), g), "%s of %v and %v", name, ta, tb)
		return true
	}
	binary, unary := binaryOps(), unaryOps()
	accepted := map[string]int{}
	for name, op := range binary {
		for _, ta := range ggml.Types() {
			for _, tb := range ggml.Types() {
				if try(name, ta, tb, op) {
					accepted[name]++
				}
			}
		}
	}
	for name, op := range unary {
		for _, ta := range ggml.Types() {
			if try(name, ta, ggml.F32, func(c *ctx, a, _ *ggml.Tensor) *ggml.Tensor { return op(c, a) }) {
				accepted[name]++
			}
		}
	}
	for _, to := range ggml.Types() {
		for _, from := range ggml.Types() {
			try("cast", from, to, func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.Cast(a, to) })
		}
	}
	for name := range binary {
		require.Positive(t, accepted[name], name)
	}
	for name := range unary {
		require.Positive(t, accepted[name], name)
	}
}

// binaryOps calls ops on two operands [256, 4], or on parts of them.
func binaryOps() map[string]func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor {
	ids := func(c *ctx, b *ggml.Tensor) *ggml.Tensor { return c.View(b, []int64{2}, nil, 0) }
	return map[string]func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor{
		"add": (*ctx).Add, "add_inplace": (*ctx).AddInPlace, "sub": (*ctx).Sub, "mul": (*ctx).Mul, "div": (*ctx).Div,
		"mul_mat": (*ctx).MulMat, "out_prod": (*ctx).OutProd, "silu_back": (*ctx).SiluBack,
		"repeat_back": (*ctx).RepeatBack, "copy": (*ctx).Copy, "count_equal": (*ctx).CountEqual,
		"cross_entropy_loss": (*ctx).CrossEntropyLoss,
		"concat":             func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.Concat(a, b, 1) },
		"concat0":            func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.Concat(a, b, 0) },
		"glu_split":          func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.GLUSplit(ggml.SwiGLU, a, b) },
		"soft_max_ext":       func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.SoftMaxExt(a, b, 1, 0) },
		"soft_max_back":      func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.SoftMaxBack(a, b, 1) },
		"rms_norm_back":      func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.RMSNormBack(a, b, 1e-5) },
		"get_rows":           func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.GetRows(a, ids(c, b)) },
		"set_rows": func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor {
			return c.SetRows(a, c.Fill(c.NewTensor(ggml.F32, 256, 2), 0), ids(c, b))
		},
		"mul_mat_id": func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor {
			return c.MulMatID(a, c.Reshape(b, 256, 1, 4), c.Cast(c.Fill(c.NewTensor(ggml.F32, 1, 4), 0), ggml.I32))
		},
		"flash": func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor {
			return c.FlashAttention(a, b, b, nil, 1, 0, 0)
		},
		"acc":      func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.Acc(a, b, [3]int64{1024, 4096, 4096}, 0) },
		"set":      func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.Set(a, b, [3]int64{1024, 4096, 4096}, 0) },
		"opt_sgd":  func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.OptStepSGD(a, b, c.Arange(0, 2, 1)) },
		"opt_adam": func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor { return c.OptStepAdamW(a, b, b, b, c.Arange(0, 7, 1)) },
	}
}

func unaryOps() map[string]func(c *ctx, a *ggml.Tensor) *ggml.Tensor {
	return map[string]func(c *ctx, a *ggml.Tensor) *ggml.Tensor{
		"abs": (*ctx).Abs, "sgn": (*ctx).Sgn, "neg": (*ctx).Neg, "step": (*ctx).Step, "tanh": (*ctx).Tanh, "elu": (*ctx).Elu,
		"relu": (*ctx).Relu, "sigmoid": (*ctx).Sigmoid, "gelu": (*ctx).Gelu, "gelu_quick": (*ctx).GeluQuick,
		"gelu_erf": (*ctx).GeluErf, "silu": (*ctx).Silu, "hardswish": (*ctx).HardSwish, "hardsigmoid": (*ctx).HardSigmoid,
		"exp": (*ctx).Exp, "expm1": (*ctx).Expm1, "softplus": (*ctx).Softplus, "floor": (*ctx).Floor, "ceil": (*ctx).Ceil,
		"round": (*ctx).Round, "trunc": (*ctx).Trunc, "sqr": (*ctx).Sqr, "sqrt": (*ctx).Sqrt, "log": (*ctx).Log,
		"sin": (*ctx).Sin, "cos": (*ctx).Cos, "sum": (*ctx).Sum, "sum_rows": (*ctx).SumRows, "cumsum": (*ctx).CumSum,
		"mean": (*ctx).Mean, "argmax": (*ctx).ArgMax, "soft_max": (*ctx).SoftMax, "dup": (*ctx).Dup,
		"transpose":  func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Transpose(a)) },
		"cont":       func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Cont(a) },
		"cont_shape": func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Cont(a, 512, 2) },
		"norm":       func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Norm(a, 1e-5) },
		"rms_norm":   func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.RMSNorm(a, 1e-5) },
		"l2_norm":    func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.L2Norm(a, 1e-5) },
		"group_norm": func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.GroupNorm(a, 1, 1e-5) },
		"scale":      func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Scale(a, 2) },
		"clamp":      func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Clamp(a, 0, 1) },
		"leaky_relu": func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.LeakyRelu(a, 0.1) },
		"glu":        func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.GLU(ggml.GeGLU, a, false) },
		"repeat":     func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Repeat(a, 512, 8) },
		"pad":        func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Pad(a, [4]int{1, 1, 1, 1}) },
		"fill":       func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Fill(a, 1) },
		"argsort":    func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ArgSort(a, ggml.Ascending) },
		"top_k":      func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.TopK(a, 3) },
		"diag_mask":  func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.DiagMaskInf(a, 1) },
		"diag":       func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Diag(c.View(a, []int64{256}, nil, 0)) },
		"rope": func(c *ctx, a *ggml.Tensor) *ggml.Tensor {
			pos := c.Fill(c.NewTensor(ggml.F32, 4), 0)
			return c.RoPE(c.Reshape(a, 256, 1, 4), c.Cast(pos, ggml.I32), nil, ggml.RoPE{Dims: 8, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1})
		},
	}
}

// An op that takes an operand in a layout gives what it gives on a copy
// without gaps, and no op lets a layout through that it cannot compute.
func TestAcceptedLayoutsCompute(t *testing.T) {
	m := machines(t)[0]
	r := rng(11)
	// These take views of bytes, which are others in another layout.
	viewing := map[string]bool{"get_rows": true, "set_rows": true, "diag": true}
	compare := func(name string, la, lb layout, tb ggml.Type, build func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor) {
		if viewing[name] && (lb != dense || name == "diag" && la != dense) {
			return
		}
		leaves, c := ggml.NewContext(), ggml.NewContext()
		defer leaves.Close()
		defer c.Close()
		args := []arg{
			{values: refmath.Uniform(r, 0.1, 1, 256, 4), typ: ggml.F32, layout: la},
			{values: rounded(refmath.Uniform(r, 0.1, 1, 256, 4), tb), typ: tb, layout: lb},
		}
		if tb == ggml.I32 {
			args[1].values = refmath.Map(refmath.Uniform(r, 0, 4, 256, 4), math.Floor)
			for i := range 4 {
				args[1].values.Data[i] = float64(3 - i) // rows that differ
			}
		}
		a, b := args[0].place(leaves).SetParam(), args[1].place(leaves)
		ca, cb := leaves.NewTensor(ggml.F32, 256, 4).SetParam(), leaves.NewTensor(tb, 256, 4)
		y := build(c, a, b)
		if c.Err() != nil {
			require.Regexp(t, "contiguous|must |no conversion|has no", c.Err().Error(), name)
			return
		}
		want := build(c, ca, cb)
		buffers, err := leaves.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		defer buffers.Close()
		for i, x := range (tensors{a, b, ca, cb}) {
			args[i%2].write(t, x)
		}
		m.compute(t, c.NewGraph(y, want))
		got, expected := numbers(t, y), numbers(t, want)
		require.LessOrEqual(t, refmath.NMSE(got, expected), 1e-10, "%s of layouts %d and %d", name, la, lb)
	}
	for _, la := range anyLayout {
		for name, op := range unaryOps() {
			compare(name, la, dense, ggml.F32, func(c *ctx, a, _ *ggml.Tensor) *ggml.Tensor { return op(c, a) })
		}
		for _, lb := range anyLayout {
			for name, op := range binaryOps() {
				for _, tb := range []ggml.Type{ggml.F32, ggml.I32} {
					compare(name, la, lb, tb, op)
				}
			}
		}
	}
}
