package ggml_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

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
			name: "copy", params: []int{0},
			args:  func(d *draw) []arg { return []arg{d.normal(6, 3, 2), d.normal(9, 4)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Copy(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.Reshape(x[0], 9, 4) },
		},
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
	for _, k := range slices.Concat(gradCases(), convGradCases(), ropeGradCases(), numberedGradCases()) {
		for _, m := range machines(t) {
			t.Run(k.name+"/"+m.name, func(t *testing.T) { k.run(t, m) })
		}
	}
}

func (k *gradCase) draw() *draw {
	return (&opCase{name: k.name, layouts: denseOnly}).draw(ggml.F32)
}

func (k *gradCase) run(t *testing.T, m *machine) {
	d := k.draw()
	args := k.args(d)
	var x refs
	for _, a := range args {
		x = append(x, a.values)
	}
	y := k.want(x)
	weights := refmath.Uniform(d.Rand, 0.5, 1.5, y.Ne[:]...)
	got := k.gradients(t, m, args, weights, false)
	require.Equal(t, got, k.gradients(t, m, args, weights, true), "of the transposed result")
	if got == nil {
		t.Skipf("%s computes none of this", m.name)
	}
	for i, p := range k.params {
		exact := x[p]
		want := refmath.NumericGradient(exact, 1e-5, func(probe refmath.Tensor) float64 {
			x[p] = probe
			return refmath.Sum(refmath.Mul(k.want(x), weights)).Data[0]
		})
		x[p] = exact
		require.LessOrEqual(t, refmath.RelativeError(got[i], want.Data), max(1e-4, k.bound), "operand %d", p)
	}
}

// gradients computes the gradients of Σ weights · op, if the machine takes part.
func (k *gradCase) gradients(t *testing.T, m *machine, args []arg, weights refmath.Tensor, transposed bool) [][]float32 {
	p := newProgram(append(args, arg{values: weights, typ: ggml.F32}), func(c *ctx, x tensors) *ggml.Tensor {
		for _, i := range k.params {
			x[i].SetParam()
		}
		y, w := k.build(c, x), x[len(args)]
		if transposed { // and so the gradient of the result is
			y, w = c.Transpose(y), c.Cont(c.Transpose(w))
		}
		return c.Sum(c.Mul(w, y)).SetLoss()
	})
	defer p.close()
	g := p.c.NewTrainingGraph(p.y)
	require.NoError(t, g.Backward())
	for _, i := range k.params {
		grad := g.Grad(p.x[i])
		require.NotNil(t, grad)
		g.Expand(grad.SetOutput())
	}
	if !m.takes(g) {
		return nil
	}
	buffers, err := p.leaves.Allocate(m.device.BufferType())
	require.NoError(t, err)
	defer buffers.Close()
	for i, a := range args {
		a.write(t, p.x[i])
	}
	require.NoError(t, ggml.Write(p.x[len(args)], weights.Float32()))
	require.NoError(t, m.sched.Alloc(g))
	var out [][]float32
	for range 2 { // the second compute gives the same
		require.NoError(t, g.Reset())
		require.NoError(t, m.sched.Compute(context.Background(), g))
		var now [][]float32
		for _, i := range k.params {
			now = append(now, numbers(t, g.Grad(p.x[i])))
		}
		if out != nil {
			require.Equal(t, out, now)
		}
		out = now
	}
	return out
}

// Backward takes no op whose gradients are not compared with central differences.
func TestNoOtherBackward(t *testing.T) {
	tested := map[string]bool{}
	for _, k := range slices.Concat(gradCases(), convGradCases(), ropeGradCases(), numberedGradCases()) {
		p := newProgram(k.args(k.draw()), k.build)
		for n := range p.c.NewGraph(p.y).Nodes() {
			tested[n.Op()] = true
		}
		require.NoError(t, p.c.Err())
		p.close()
	}
	taken := 0
	for _, k := range opCases() {
		k.fill()
		if k.types[0] != ggml.F32 || strings.HasPrefix(k.name, "opt_step") {
			continue // the library's own steps
		}
		p := newProgram(k.args(k.draw(ggml.F32)), func(c *ctx, x tensors) *ggml.Tensor {
			for _, leaf := range x {
				if leaf.Type() == ggml.F32 {
					leaf.SetParam()
				}
			}
			return k.build(c, x)
		})
		if p.y.Type() == ggml.F32 {
			forward := p.c.NewTrainingGraph(p.c.Sum(p.y).SetLoss())
			var ops []string
			for n := range forward.Nodes() {
				if n.Op() != "none" && n.Op() != "sgn" && n.Op() != "step" { // these stop gradients
					ops = append(ops, n.Op())
				}
			}
			if forward.Backward() == nil {
				taken++
				for _, op := range ops {
					assert.True(t, tested[op], "%s: the gradients of %s are not tested", k.name, op)
				}
			}
		}
		p.close()
	}
	require.Greater(t, taken, 50)
}
