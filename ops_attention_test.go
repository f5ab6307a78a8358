package ggml_test

import (
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func softMaxCases() []opCase {
	masked := func(name string, mask ggml.Type, heads int64, maxBias float32) opCase {
		return opCase{
			Name: name, Layouts: optest.ContiguousOnly, Bound: optest.VectorExp,
			Operands: func(d *draw) []operand {
				n, rows, batch := d.Size(40), d.Size(6), d.Size(3)
				m := refmath.Normal(d.Rand, 1, n, rows+d.Size(2), 1, 1)
				for i := range m.Data {
					if d.IntN(4) == 0 && int64(i)%n != 0 {
						m.Data[i] = math.Inf(-1)
					}
				}
				return []operand{d.Normal(n, rows, heads, batch), {Values: optest.Rounded(m, mask), Type: mask}}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.SoftMaxExt(x[0], ggml.SoftMaxOptions{Mask: x[1], Scale: 0.5, MaxBias: maxBias})
			},
			Want: func(x refs) refmath.Tensor {
				return refmath.SoftMaxExt(x[0], x[1], refmath.Tensor{}, 0.5, float64(maxBias))
			},
		}
	}
	return []opCase{
		{
			Name: "soft_max", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMax(x[0]) },
			Want:  func(x refs) refmath.Tensor { return refmath.SoftMax(x[0]) },
		},
		masked("soft_max_ext_f32", ggml.F32, 3, 0),
		masked("soft_max_ext_f16", ggml.F16, 3, 0),
		masked("soft_max_ext_alibi", ggml.F32, 6, 8),
		{
			Name: "diag_mask_inf", Layouts: optest.ContiguousOnly, Bound: optest.Masked, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.DiagMaskInf(x[0], 1) },
			Want:  func(x refs) refmath.Tensor { return refmath.DiagMaskInf(x[0], 1) },
		},
		{
			Name: "diag_mask_zero", Layouts: optest.ContiguousOnly, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.DiagMaskZero(x[0], 0) },
			Want:  func(x refs) refmath.Tensor { return refmath.DiagMaskZero(x[0], 0) },
		},
	}
}

// attentionCases have keys and values of every type, also of two different types.
func attentionCases() []opCase {
	type variant struct {
		name             string
		keys, values     bool // have the case's type; otherwise F32
		mask, sinks      bool
		maxBias, softcap float32
	}
	flash := func(v variant) opCase {
		return opCase{
			Name: "flash_" + v.name, Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.FlashAttention, Runs: 3, Slow: true,
			Operands: func(d *draw) []operand {
				n, kv, heads, batch := d.Size(5), d.Size(40), d.Size(2), d.Size(2)
				long, short := max(64, d.Block()), max(32, d.Block())
				k, values := d.F32(long, kv, heads, batch), d.F32(short, kv, heads, batch)
				if v.keys {
					k = d.Normal(k.Values.Ne[:]...)
				}
				if v.values {
					values = d.Normal(values.Values.Ne[:]...)
				}
				return []operand{d.F32(long, n, 2*heads, batch), k, values, d.F32(kv, n).As(ggml.F16), d.F32(2 * heads)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				o := ggml.AttentionOptions{Scale: 0.125, MaxBias: v.maxBias, Softcap: v.softcap}
				if v.mask {
					o.Mask = x[3]
				}
				if v.sinks {
					o.Sinks = x[4]
				}
				return c.FlashAttention(x[0], x[1], x[2], o)
			},
			Want: func(x refs) refmath.Tensor {
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

func sinkCases() []opCase {
	return []opCase{
		{
			Name: "soft_max_sinks_f32", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp,
			Operands: func(d *draw) []operand {
				n, rows, heads := d.Size(40), d.Size(5), d.Size(4)
				return []operand{d.Normal(n, rows, heads, d.Size(2)), d.Normal(n, rows), d.Normal(heads)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.SoftMaxExt(x[0], ggml.SoftMaxOptions{Mask: x[1], Sinks: x[2], Scale: 0.5})
			},
			Want: func(x refs) refmath.Tensor { return refmath.SoftMaxExt(x[0], x[1], x[2], 0.5, 0) },
		},
		{
			Name: "soft_max_sinks_f16", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp,
			Operands: func(d *draw) []operand {
				n, rows, heads := d.Size(40), d.Size(5), d.Size(4)
				return []operand{d.Normal(n, rows, heads, d.Size(2)), d.F32(n, rows).As(ggml.F16), d.F32(heads)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.SoftMaxExt(x[0], ggml.SoftMaxOptions{Mask: x[1], Sinks: x[2], Scale: 0.5})
			},
			Want: func(x refs) refmath.Tensor { return refmath.SoftMaxExt(x[0], x[1], x[2], 0.5, 0) },
		},
	}
}
