package ggml_test

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestBackwardOps(t *testing.T) {
	probabilities := func(d *draw) []arg {
		ne := [4]int64{2 + d.size(40), d.size(5), 1, 1}
		labels := refmath.SoftMax(refmath.Normal(d.Rand, 1, ne[:]...))
		return []arg{d.f32(1), d.normal(ne[:]...), arg{values: labels}.as(ggml.F32)}
	}
	runOps(t, []opCase{
		{
			name: "silu_back", types: []ggml.Type{ggml.F32, ggml.F16}, layouts: denseOnly, bound: 1e-5, args: pair,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SiluBack(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.SiluBack(x[0], x[1]) },
		},
		{
			name: "rms_norm_back", layouts: denseRows, bound: 1e-4, args: pair,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.RMSNormBack(x[0], x[1], 1e-2) },
			want:  func(x refs) refmath.Tensor { return refmath.RMSNormBack(x[0], x[1], float64(float32(1e-2))) },
		},
		{
			name: "soft_max_ext_back", layouts: denseOnly, bound: 1e-5,
			args: func(d *draw) []arg {
				ne := d.shape()
				y := refmath.SoftMax(refmath.Normal(d.Rand, 1, ne[:]...))
				return []arg{d.normal(ne[:]...), arg{values: y}.as(ggml.F32)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxBack(x[0], x[1], 0.5) },
			want:  func(x refs) refmath.Tensor { return refmath.SoftMaxExtBack(x[0], x[1], 0.5) },
		},
		{
			name: "cross_entropy_loss", layouts: denseOnly, bound: 1e-5, args: probabilities,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.CrossEntropyLoss(x[1], x[2]) },
			want:  func(x refs) refmath.Tensor { return refmath.CrossEntropyLoss(x[1], x[2]) },
		},
		{
			name: "cross_entropy_loss_back", layouts: denseOnly, bound: 1e-5, args: probabilities,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.CrossEntropyLossBack(x[0], x[1], x[2]) },
			want:  func(x refs) refmath.Tensor { return refmath.CrossEntropyLossBack(x[0], x[1], x[2]) },
		},
	})
}

// A gradCase is an op whose backward is compared with central differences of
// the reference, for the loss Σ weights · op(…).
type gradCase struct {
	name   string
	args   func(d *draw) []arg
	params []int   // operands with a gradient
	bound  float64 // of the relative error, 0 for 1e-4
	build  func(c *ctx, x tensors) *ggml.Tensor
	want   func(x refs) refmath.Tensor
}

func gradCases() []gradCase {
	unary := func(name string, lo, hi float64, build func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor) gradCase {
		return gradCase{
			name: name, params: []int{0},
			args:  func(d *draw) []arg { return []arg{d.uniform(lo, hi, 6, 3, 2)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0]) },
			want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	binary := func(name string, build func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor, ref func(a, b refmath.Tensor) refmath.Tensor, b ...int64) gradCase {
		return gradCase{
			name: name, params: []int{0, 1},
			args:  func(d *draw) []arg { return []arg{d.uniform(0.5, 2, 6, 4, 2), d.uniform(0.5, 2, b...)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return ref(x[0], x[1]) },
		}
	}
	part := [3]int64{6, 18, 36}
	bytes := [3]int64{24, 72, 144}
	rope := ropes()["neox"]
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
		unary("soft_max", -2, 2, (*ctx).SoftMax, refmath.SoftMax),
		unary("diag_mask_zero", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.DiagMaskZero(a, 1) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.DiagMaskZero(a, 1) }),
		unary("diag_mask_inf", -2, 2, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.SoftMax(c.DiagMaskInf(a, 1)) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.SoftMax(refmath.DiagMaskInf(a, 1)) }),
		{
			name: "soft_max_ext", params: []int{0},
			args:  func(d *draw) []arg { return []arg{d.normal(7, 3, 2), d.normal(7, 3)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxExt(x[0], x[1], 0.5, 0) },
			want:  func(x refs) refmath.Tensor { return refmath.SoftMaxExt(x[0], x[1], refmath.Tensor{}, 0.5, 0) },
		},
		{
			name: "rope", params: []int{0},
			args:  func(d *draw) []arg { return []arg{d.normal(8, 3, 4), d.ids(20, 4)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.RoPE(x[0], x[1], nil, rope.lib) },
			want:  func(x refs) refmath.Tensor { return refmath.RopeExt(x[0], x[1], rope.ref) },
		},
		{
			name: "mul_mat", params: []int{0, 1},
			args:  func(d *draw) []arg { return []arg{d.normal(5, 4), d.normal(5, 3)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
		},
		{
			// As many queries share the keys in grouped attention.
			name: "mul_mat_repeated", params: []int{0, 1},
			args:  func(d *draw) []arg { return []arg{d.normal(5, 4, 2), d.normal(5, 3, 4)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
		},
		{
			name: "get_rows", params: []int{0},
			args:  func(d *draw) []arg { return []arg{d.normal(5, 4), d.ids(4, 7)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.GetRows(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.GetRows(x[0], x[1]) },
		},
		{
			name: "acc", params: []int{0, 1},
			args:  func(d *draw) []arg { return []arg{d.normal(6, 3, 2), d.normal(4, 2)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Acc(x[0], x[1], bytes, 4) },
			want:  func(x refs) refmath.Tensor { return refmath.Acc(x[0], x[1], part, 1) },
		},
		{
			name: "set", params: []int{0, 1},
			args:  func(d *draw) []arg { return []arg{d.normal(6, 3, 2), d.normal(4, 2)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Set(x[0], x[1], bytes, 4) },
			want:  func(x refs) refmath.Tensor { return refmath.Set(x[0], x[1], part, 1) },
		},
		{
			name: "glu_split", params: []int{0, 1},
			args:  func(d *draw) []arg { return []arg{d.normal(6, 3, 2), d.normal(6, 3, 2)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.GLUSplit(ggml.SwiGLU, x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.GateSplit(refmath.SwiGLU, x[0], x[1]) },
		},
		{
			name: "cross_entropy_loss", params: []int{0},
			args: func(d *draw) []arg {
				labels := refmath.SoftMax(refmath.Normal(d.Rand, 1, 6, 4))
				return []arg{d.normal(6, 4), arg{values: labels}.as(ggml.F32)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.CrossEntropyLoss(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.CrossEntropyLoss(x[0], x[1]) },
		},
	}
}

func TestGradients(t *testing.T) {
	for _, k := range append(gradCases(), convGradCases()...) {
		t.Run(k.name, func(t *testing.T) {
			h := fnv.New64()
			h.Write([]byte(k.name))
			d := &draw{Rand: rand.New(rand.NewPCG(h.Sum64(), 0)), typ: ggml.F32, layouts: denseOnly}
			args := k.args(d)
			var x refs
			for _, a := range args {
				x = append(x, a.values)
			}
			y := k.want(x)
			weights := refmath.Uniform(d.Rand, 0.5, 1.5, y.Ne[:]...)
			loss := func() float64 { return refmath.Sum(refmath.Mul(k.want(x), weights)).Data[0] }
			got := k.gradients(t, args, weights)
			for i, p := range k.params {
				exact := x[p]
				want := refmath.NumericGradient(exact, 1e-5, func(probe refmath.Tensor) float64 {
					x[p] = probe
					return loss()
				})
				x[p] = exact
				require.LessOrEqual(t, refmath.RelativeError(got[i], want.Data), max(1e-4, k.bound), "operand %d", p)
			}
		})
	}
}

// gradients computes the gradients of Σ weights · op.
func (k *gradCase) gradients(t *testing.T, args []arg, weights refmath.Tensor) [][]float32 {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	var x tensors
	for _, a := range append(args, arg{values: weights, typ: ggml.F32}) {
		x = append(x, a.place(leaves))
	}
	for _, p := range k.params {
		x[p].SetParam()
	}
	y := k.build(c, x)
	loss := c.Sum(c.Mul(y, x[len(args)])).SetLoss()
	g := c.NewTrainingGraph(loss)
	require.NoError(t, g.Backward())
	for _, p := range k.params {
		grad := g.Grad(x[p])
		require.NotNil(t, grad)
		g.Expand(grad.SetOutput())
	}
	buffers, err := leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	for i, a := range args {
		a.write(t, x[i])
	}
	require.NoError(t, ggml.Write(x[len(args)], weights.Float32()))
	b, err := ggml.NewCPUBackend(2)
	require.NoError(t, err)
	defer b.Close()
	alloc, err := ggml.NewGraphAllocator(ggml.CPUBufferType())
	require.NoError(t, err)
	defer alloc.Close()
	require.NoError(t, alloc.Alloc(g))
	var out [][]float32
	for range 2 { // the second compute gives the same
		require.NoError(t, g.Reset())
		require.NoError(t, b.Compute(context.Background(), g))
		var now [][]float32
		for _, p := range k.params {
			now = append(now, numbers(t, g.Grad(x[p])))
		}
		if out != nil {
			require.Equal(t, out, now)
		}
		out = now
	}
	return out
}
