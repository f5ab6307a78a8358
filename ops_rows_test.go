package ggml_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// one draws a single operand of any shape.
func one(d *draw) []arg { ne := d.shape(); return []arg{d.normal(ne[:]...)} }

// pair draws two operands of one shape.
func pair(d *draw) []arg {
	ne := d.shape()
	return []arg{d.normal(ne[:]...), d.normal(ne[:]...)}
}

// float32 arithmetic on a small epsilon differs from float64's.
const eps = 1e-5

var eps64 = float64(float32(eps))

func TestReductions(t *testing.T) {
	unary := func(name string, build func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor, bound float64) opCase {
		return opCase{
			name: name, layouts: denseRows, bound: bound, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0]) },
			want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	sum := unary("sum", (*ctx).Sum, refmath.Sum, 1e-5)
	half := sum
	half.types, half.bound = []ggml.Type{ggml.F16, ggml.BF16}, 5e-2 // added up in the type itself
	argmax := unary("argmax", (*ctx).ArgMax, refmath.ArgMax, 0)
	argmax.args = func(d *draw) []arg { return []arg{d.normal(d.size(70), d.size(5))} }
	sorted := func(name string, order ggml.SortOrder) opCase {
		k := unary(name, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ArgSort(a, order) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.ArgSort(a, order == ggml.Descending) }, 0)
		k.layouts = evenRows
		return k
	}
	runOps(t, []opCase{
		sum, half, argmax, sorted("argsort", ggml.Ascending), sorted("argsort_descending", ggml.Descending),
		unary("sum_rows", (*ctx).SumRows, refmath.SumRows, 1e-5),
		unary("mean", (*ctx).Mean, refmath.Mean, 1e-5),
		unary("cumsum", (*ctx).CumSum, refmath.CumSum, 1e-5),
		{
			name: "count_equal", layouts: denseOnly,
			args: func(d *draw) []arg {
				ne := d.shape()
				return []arg{d.ids(3, ne[:]...), d.ids(3, ne[:]...)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.CountEqual(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.CountEqual(x[0], x[1]) },
		},
	})
}

// The order of top_k is not defined.
func TestTopK(t *testing.T) {
	for _, m := range machines(t) {
		a := arg{values: refmath.Normal(rng(1), 1, 50, 3, 2), typ: ggml.F32}
		got, shape := m.eval(t, []arg{a}, func(c *ctx, x tensors) *ggml.Tensor { return c.TopK(x[0], 7) })
		require.Equal(t, [4]int64{7, 3, 2, 1}, shape)
		want := refmath.TopK(a.values, 7).Float32()
		for i := 0; i < len(want); i += 7 {
			require.ElementsMatch(t, want[i:i+7], got[i:i+7], m.name)
		}
	}
}

func TestNorms(t *testing.T) {
	unary := func(name string, build func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor) opCase {
		return opCase{
			name: name, layouts: denseRows, bound: 1e-5, args: func(d *draw) []arg {
				ne := d.shape()
				return []arg{d.normal(ne[0]+3, ne[1], ne[2], ne[3])}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0]) },
			want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	group := unary("group_norm", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.GroupNorm(a, 2, eps) },
		func(a refmath.Tensor) refmath.Tensor { return refmath.GroupNorm(a, 2, eps64) })
	group.layouts = denseOnly
	group.args = func(d *draw) []arg { return []arg{d.normal(2+d.size(9), d.size(4), 2*d.size(3), d.size(2))} }
	runOps(t, []opCase{
		group,
		unary("norm", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Norm(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Norm(a, eps64) }),
		unary("rms_norm", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.RMSNorm(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.RMSNorm(a, eps64) }),
		unary("l2_norm", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.L2Norm(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.L2Norm(a, eps64) }),
	})
}

func TestSoftMax(t *testing.T) {
	masked := func(name string, mask ggml.Type, heads int64, maxBias float32) opCase {
		return opCase{
			name: name, layouts: denseOnly, bound: 2e-6,
			args: func(d *draw) []arg {
				n, rows, batch := d.size(40), d.size(6), d.size(3)
				m := refmath.Normal(d.Rand, 1, n, rows+d.size(2), 1, 1)
				for i := range m.Data {
					if d.IntN(4) == 0 && int64(i)%n != 0 {
						m.Data[i] = math.Inf(-1)
					}
				}
				return []arg{d.normal(n, rows, heads, batch), {values: rounded(m, mask), typ: mask}}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxExt(x[0], x[1], 0.5, maxBias) },
			want: func(x refs) refmath.Tensor {
				return refmath.SoftMaxExt(x[0], x[1], refmath.Tensor{}, 0.5, float64(maxBias))
			},
		}
	}
	runOps(t, []opCase{
		{
			name: "soft_max", layouts: denseOnly, bound: 1e-6, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMax(x[0]) },
			want:  func(x refs) refmath.Tensor { return refmath.SoftMax(x[0]) },
		},
		masked("soft_max_ext_f32", ggml.F32, 3, 0),
		masked("soft_max_ext_f16", ggml.F16, 3, 0),
		masked("soft_max_ext_alibi", ggml.F32, 6, 8),
		{
			name: "diag_mask_inf", layouts: denseOnly, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.DiagMaskInf(x[0], 1) },
			want:  func(x refs) refmath.Tensor { return refmath.DiagMaskInf(x[0], 1) },
		},
		{
			name: "diag_mask_zero", layouts: denseOnly, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.DiagMaskZero(x[0], 0) },
			want:  func(x refs) refmath.Tensor { return refmath.DiagMaskZero(x[0], 0) },
		},
	})
}

// ropes gives variants of rotary embedding over 8 dimensions, for both sides.
func ropes() map[string]struct {
	lib     ggml.RoPE
	ref     refmath.RoPE
	factors bool
} {
	type variant = struct {
		lib     ggml.RoPE
		ref     refmath.RoPE
		factors bool
	}
	plain := ggml.RoPE{Dims: 8, FreqBase: 10000, FreqScale: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	neox, linear, yarn := plain, plain, plain
	neox.Mode = ggml.RoPENeoX
	linear.FreqScale = 0.25
	yarn.Mode, yarn.FreqScale, yarn.TrainedCtx, yarn.ExtFactor = ggml.RoPENeoX, 0.25, 64, 1
	ref := func(r ggml.RoPE) refmath.RoPE {
		return refmath.RoPE{
			Dims: r.Dims, NeoX: r.Mode == ggml.RoPENeoX, CtxOrig: r.TrainedCtx, FreqBase: float64(r.FreqBase),
			FreqScale: float64(r.FreqScale), ExtFactor: float64(r.ExtFactor), AttnFactor: float64(r.AttnFactor),
			BetaFast: float64(r.BetaFast), BetaSlow: float64(r.BetaSlow),
		}
	}
	return map[string]variant{
		"norm":    {plain, ref(plain), false},
		"neox":    {neox, ref(neox), false},
		"linear":  {linear, ref(linear), false},
		"yarn":    {yarn, ref(yarn), false},
		"factors": {plain, ref(plain), true},
	}
}

func TestRoPE(t *testing.T) {
	var cases []opCase
	for name, v := range ropes() {
		args := func(d *draw) []arg {
			tokens := d.size(5)
			args := []arg{d.normal(8+2*d.size(4), d.size(3), tokens, d.size(2)), d.ids(50, tokens)}
			if v.factors {
				args = append(args, d.uniform(1, 4, 4).as(ggml.F32))
			}
			return args
		}
		factors := func(x tensors) *ggml.Tensor {
			if v.factors {
				return x[2]
			}
			return nil
		}
		reference := func(x refs) refmath.RoPE {
			p := v.ref
			if v.factors {
				p.Factors = x[2].Data
			}
			return p
		}
		cases = append(cases, opCase{
			name: "rope_" + name, types: []ggml.Type{ggml.F32, ggml.F16}, layouts: denseRows, bound: 3e-5, args: args,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.RoPE(x[0], x[1], factors(x), v.lib) },
			want:  func(x refs) refmath.Tensor { return refmath.RopeExt(x[0], x[1], reference(x)) },
		}, opCase{
			name: "rope_back_" + name, layouts: denseRows, bound: 3e-5, args: args,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.RoPEBack(x[0], x[1], factors(x), v.lib) },
			want:  func(x refs) refmath.Tensor { return refmath.RopeExtBack(x[0], x[1], reference(x)) },
		})
	}
	slices.SortFunc(cases, func(a, b opCase) int { return slices.Compare([]byte(a.name), []byte(b.name)) })
	runOps(t, cases)
}

func TestFlashAttention(t *testing.T) {
	flash := func(name string, withMask bool, maxBias, softcap float32) opCase {
		return opCase{
			name: name, types: []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.Q8_0}, layouts: denseOnly,
			// q is rounded to the type, values are added up in half precision.
			nmse: func(typ ggml.Type) float64 {
				if typ == ggml.F32 {
					return 1e-5
				}
				return 2e-4
			},
			args: func(d *draw) []arg {
				n, kv, kvHeads, batch := d.size(5), d.size(40), d.size(2), d.size(2)
				q := d.f32(64, n, 2*kvHeads, batch)
				args := []arg{q, d.normal(64, kv, kvHeads, batch), d.normal(32, kv, kvHeads, batch)}
				if withMask {
					mask := refmath.Normal(d.Rand, 1, kv, n)
					args = append(args, arg{values: rounded(mask, ggml.F16), typ: ggml.F16})
				}
				return args
			},
			build: func(c *ctx, x tensors) *ggml.Tensor {
				var mask *ggml.Tensor
				if withMask {
					mask = x[3]
				}
				return c.FlashAttention(x[0], x[1], x[2], mask, 0.125, maxBias, softcap)
			},
			want: func(x refs) refmath.Tensor {
				var mask refmath.Tensor
				if withMask {
					mask = x[3]
				}
				return refmath.FlashAttnExt(x[0], x[1], x[2], mask, refmath.Tensor{}, 0.125, float64(maxBias), float64(softcap))
			},
		}
	}
	runOps(t, []opCase{
		flash("flash", false, 0, 0),
		flash("flash_mask", true, 0, 0),
		flash("flash_alibi", true, 8, 0),
		flash("flash_softcap", true, 0, 5),
	})
}

func TestOptimizerSteps(t *testing.T) {
	p := refmath.AdamWAt(3, 0.01, 0.9, 0.99, 1e-8, 0.1)
	for _, m := range machines(t) {
		c := ggml.NewContext()
		r := rng(7)
		w, g := refmath.Normal(r, 1, 33, 3), refmath.Normal(r, 1, 33, 3)
		m1, v1 := refmath.Normal(r, 0.1, 33, 3), refmath.Uniform(r, 0.01, 0.1, 33, 3)
		leaf := func(v refmath.Tensor) *ggml.Tensor { return c.NewTensor(ggml.F32, v.Ne[0], v.Ne[1]) }
		wt, gt, mt, vt := leaf(w).SetParam(), leaf(g), leaf(m1), leaf(v1)
		st := leaf(w).SetParam()
		pt, sp := c.NewTensor(ggml.F32, 7), c.NewTensor(ggml.F32, 2)
		buffers, err := c.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		for x, v := range map[*ggml.Tensor]refmath.Tensor{wt: w, gt: g, mt: m1, vt: v1, st: w} {
			require.NoError(t, ggml.Write(x, v.Float32()))
		}
		require.NoError(t, ggml.Write(pt, []float32{0.01, 0.9, 0.99, 1e-8, 0.1, float32(p.Beta1H), float32(p.Beta2H)}))
		require.NoError(t, ggml.Write(sp, []float32{0.05, 0.1}))
		graph := c.NewGraph(c.OptStepAdamW(wt, gt, mt, vt, pt), c.OptStepSGD(st, gt, sp))
		require.NoError(t, m.sched.Alloc(graph))
		require.NoError(t, m.sched.Compute(context.Background(), graph))
		newW, newM, newV := refmath.OptStepAdamW(w, g, m1, v1, p)
		requireNear(t, numbers(t, wt), newW, 1e-6, nil)
		requireNear(t, numbers(t, mt), newM, 1e-6, nil)
		requireNear(t, numbers(t, vt), newV, 1e-6, nil)
		requireNear(t, numbers(t, st), refmath.OptStepSGD(w, g, 0.05, 0.1), 1e-6, nil)
		require.NoError(t, m.sched.Reset())
		buffers.Close()
		c.Close()
	}
}
