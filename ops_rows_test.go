package ggml_test

import (
	"math"
	"testing"

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

// pair32 is pair with a second operand of F32.
func pair32(d *draw) []arg {
	ne := d.shape()
	return []arg{d.normal(ne[:]...), d.f32(ne[:]...)}
}

// float32 arithmetic on a small epsilon differs from float64's.
const eps = 1e-5

var eps64 = float64(float32(eps))

func TestReductions(t *testing.T) { runOps(t, reductionCases()) }

func reductionCases() []opCase {
	unary := func(name string, build func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor, bound *bound) opCase {
		return opCase{
			name: name, layouts: denseRows, bound: bound, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0]) },
			want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	var k int
	sum := unary("sum", (*ctx).Sum, refmath.Sum, sums)
	half := sum
	half.name, half.types = "sum_half", []ggml.Type{ggml.F16, ggml.BF16}
	argmax := unary("argmax", (*ctx).ArgMax, refmath.ArgMax, exact)
	argmax.args = func(d *draw) []arg { return []arg{d.normal(d.size(70), d.size(5))} }
	sorted := func(name string, order ggml.SortOrder) opCase {
		k := unary(name, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ArgSort(a, order) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.ArgSort(a, order == ggml.Descending) }, exact)
		k.layouts = evenRows
		return k
	}
	return []opCase{
		sum, half, argmax, sorted("argsort", ggml.Ascending), sorted("argsort_descending", ggml.Descending),
		unary("sum_rows", (*ctx).SumRows, refmath.SumRows, sums),
		unary("mean", (*ctx).Mean, refmath.Mean, sums),
		unary("cumsum", (*ctx).CumSum, refmath.CumSum, sums),
		{
			name: "top_k", layouts: evenRows, unordered: true,
			args: func(d *draw) []arg {
				a := one(d)
				k = int(d.size(a[0].values.Ne[0]))
				return a
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.TopK(x[0], k) },
			want:  func(x refs) refmath.Tensor { return refmath.TopK(x[0], int64(k)) },
		},
		{
			name: "count_equal", layouts: denseOnly,
			args: func(d *draw) []arg {
				ne := d.shape()
				return []arg{d.ids(3, ne[:]...), d.ids(3, ne[:]...)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.CountEqual(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.CountEqual(x[0], x[1]) },
		},
	}
}

func TestNorms(t *testing.T) { runOps(t, normCases()) }

func normCases() []opCase {
	unary := func(name string, build func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor) opCase {
		return opCase{
			name: name, layouts: anyLayout, bound: sums, args: func(d *draw) []arg {
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
	rms := unary("rms_norm", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.RMSNorm(a, eps) },
		func(a refmath.Tensor) refmath.Tensor { return refmath.RMSNorm(a, eps64) })
	rms.layouts = denseRows
	return []opCase{
		group, rms,
		unary("norm", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.Norm(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Norm(a, eps64) }),
		unary("l2_norm", func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.L2Norm(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.L2Norm(a, eps64) }),
	}
}

func TestSoftMax(t *testing.T) { runOps(t, softMaxCases()) }

func softMaxCases() []opCase {
	masked := func(name string, mask ggml.Type, heads int64, maxBias float32) opCase {
		return opCase{
			name: name, layouts: denseOnly, bound: fast,
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
	return []opCase{
		{
			name: "soft_max", layouts: denseOnly, bound: fast, args: one,
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
	}
}

func TestFlashAttention(t *testing.T) { runOps(t, attentionCases()) }

// attentionCases have keys and values of all types, and of two.
func attentionCases() []opCase {
	type variant struct {
		name             string
		keys, values     bool // have the case's type, else F32
		mask, sinks      bool
		maxBias, softcap float32
	}
	flash := func(v variant) opCase {
		return opCase{
			name: "flash_" + v.name, types: weightTypes(), layouts: denseOnly, bound: attention, runs: 3,
			args: func(d *draw) []arg {
				n, kv, heads, batch := d.size(5), d.size(40), d.size(2), d.size(2)
				long, short := max(64, d.block, d.typ.BlockSize()), max(32, d.block, d.typ.BlockSize())
				k, values := d.f32(long, kv, heads, batch), d.f32(short, kv, heads, batch)
				if v.keys {
					k = d.normal(k.values.Ne[:]...)
				}
				if v.values {
					values = d.normal(values.values.Ne[:]...)
				}
				return []arg{d.f32(long, n, 2*heads, batch), k, values, d.f32(kv, n).as(ggml.F16), d.f32(2 * heads)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor {
				mask := x[3]
				if !v.mask {
					mask = nil
				}
				if v.sinks {
					return c.FlashAttentionSinks(x[0], x[1], x[2], mask, x[4], 0.125, v.maxBias, v.softcap)
				}
				return c.FlashAttention(x[0], x[1], x[2], mask, 0.125, v.maxBias, v.softcap)
			},
			want: func(x refs) refmath.Tensor {
				mask, sinks := x[3], x[4]
				if !v.mask {
					mask = refmath.Tensor{}
				}
				if !v.sinks {
					sinks = refmath.Tensor{}
				}
				return refmath.FlashAttnExt(x[0], x[1], x[2], mask, sinks, 0.125, float64(v.maxBias), float64(v.softcap))
			},
		}
	}
	cases := []opCase{
		flash(variant{name: "alibi", keys: true, values: true, mask: true, maxBias: 8}),
		flash(variant{name: "softcap", keys: true, values: true, mask: true, softcap: 5}),
	}
	for _, v := range []variant{{name: "keys", keys: true}, {name: "values", values: true}, {name: "both", keys: true, values: true}} {
		cases = append(cases, flash(v))
		v.mask = true
		v.name += "_mask"
		cases = append(cases, flash(v))
		v.sinks = true
		v.name += "_sinks"
		cases = append(cases, flash(v))
	}
	return cases
}

func TestOptimizerSteps(t *testing.T) { runOps(t, optimizerCases()) }

func optimizerCases() []opCase {
	p := refmath.AdamWAt(3, 0.01, 0.9, 0.99, 1e-8, 0.1)
	sgd := refmath.From([]float64{0.05, 0.1})
	args := func(d *draw) []arg {
		ne := d.shape()
		m, v := refmath.Normal(d.Rand, 0.1, ne[:]...), refmath.Uniform(d.Rand, 0.01, 0.1, ne[:]...)
		params := p.Tensor()
		return []arg{d.normal(ne[:]...), d.normal(ne[:]...), {values: m}, {values: v}, {values: params}, {values: sgd}}
	}
	adamW := func(c *ctx, x tensors) *ggml.Tensor {
		return c.OptStepAdamW(x[0].SetParam(), x[1], x[2], x[3], x[4])
	}
	return []opCase{
		inPlace(opCase{
			name: "opt_step_adamw", layouts: denseOnly, bound: few, args: args, build: adamW,
			want: func(x refs) refmath.Tensor {
				w, _, _ := refmath.OptStepAdamW(x[0], x[1], x[2], x[3], p)
				return w
			},
		}),
		{
			name: "opt_step_adamw_moments", layouts: denseOnly, bound: few, args: args,
			build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.Concat(c.Concat(adamW(c, x), x[2], 0), x[3], 0)
			},
			want: func(x refs) refmath.Tensor {
				w, m, v := refmath.OptStepAdamW(x[0], x[1], x[2], x[3], p)
				return refmath.Concat(refmath.Concat(w, m, 0), v, 0)
			},
		},
		inPlace(opCase{
			name: "opt_step_sgd", layouts: denseOnly, bound: few, args: args,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.OptStepSGD(x[0].SetParam(), x[1], x[5]) },
			want:  func(x refs) refmath.Tensor { return refmath.OptStepSGD(x[0], x[1], sgd.Data[0], sgd.Data[1]) },
		}),
	}
}
