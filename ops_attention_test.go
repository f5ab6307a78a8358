package ggml_test

import (
	"fmt"
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
	for i := range 8 {
		cases = append(cases, attentionToRows(i&1 != 0, i&2 != 0, i&4 != 0))
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

// attentionToRows has batches that see different keys of one cache, in any order. Keys, values or both have the case's type.
func attentionToRows(keys, values, sinks bool) opCase {
	return opCase{
		Name: fmt.Sprintf("flash_rows_%v_%v_%v", keys, values, sinks), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.FlashAttention, Runs: 3, Slow: true,
		Operands: func(d *draw) []operand {
			n, rows, kv, heads, batch := d.Size(5), d.Size(40), d.Size(20), d.Size(2), d.Size(3)
			long, short := max(64, d.Block()), max(32, d.Block())
			mask := d.F32(kv, n, 1, batch).As(ggml.F16)
			for i := range mask.Values.Data {
				if int64(i)%kv > 0 && d.IntN(3) == 0 {
					mask.Values.Data[i] = math.Inf(-1)
				}
			}
			k, v := d.F32(long, rows, heads), d.F32(short, rows, heads)
			if keys {
				k = d.Normal(long, rows, heads)
			}
			if values {
				v = d.Normal(short, rows, heads)
			}
			return []operand{d.F32(long, n, 2*heads, batch), k, v, mask, d.Indices(rows, kv, batch), d.F32(2 * heads)}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor {
			o := ggml.AttentionOptions{Mask: x[3], Scale: 0.125}
			if sinks {
				o.Sinks = x[5]
			}
			return c.FlashAttentionRows(x[0], x[1], x[2], x[4], o)
		},
		Want: func(x refs) refmath.Tensor {
			s := refmath.Tensor{}
			if sinks {
				s = x[5]
			}
			return refmath.FlashAttnExt(x[0], refmath.SeenRows(x[1], x[4]), refmath.SeenRows(x[2], x[4]), x[3], s, 0.125, 0, 0)
		},
	}
}

func topKMaskCases() []opCase {
	var cases []opCase
	for _, typ := range []ggml.Type{ggml.F16, ggml.F32} {
		for operands := range 8 { // which of the optional ones there are
			options := func(score, blocks, extra *ggml.Tensor) ggml.TopKOptions {
				var o ggml.TopKOptions
				if operands&1 != 0 {
					o.Score = score
				}
				if operands&2 != 0 {
					o.Blocks = blocks
				}
				if operands&4 != 0 {
					o.Extra = extra
				}
				return o
			}
			cases = append(cases, opCase{
				Name: fmt.Sprintf("top_k_mask_%v_%d", typ, operands), Layouts: optest.ContiguousOnly, Bound: optest.Masked,
				Operands: func(d *draw) []operand {
					kv, picks, n, m := d.Size(40), d.Size(9), d.Size(4), d.Size(2)
					rows := []int64{n, m * d.Size(3), d.Size(2)}
					with := func(ne0 int64) []int64 { return append([]int64{ne0}, rows...) }
					score := d.F32(with(picks)...)
					for i := range score.Values.Data {
						if d.IntN(3) == 0 {
							score.Values.Data[i] = math.Inf(-1)
						}
					}
					outside := func(o operand) operand { // also −1 and beyond the end
						for i := range o.Values.Data {
							o.Values.Data[i] -= 2
						}
						return o
					}
					return []operand{
						d.F32(kv, n, m).As(typ), outside(d.Indices(picks+4, with(d.Size(6))...)), score,
						outside(d.Indices(kv+4, d.Size(5), picks)), outside(d.Indices(kv+4, with(d.Size(3))...)),
					}
				},
				Build: func(c *ctx, x tensors) *ggml.Tensor { return c.TopKMask(x[0], x[1], options(x[2], x[3], x[4])) },
				Want: func(x refs) refmath.Tensor {
					score, blocks, extra := x[2], x[3], x[4]
					for i, t := range []*refmath.Tensor{&score, &blocks, &extra} {
						if operands>>i&1 == 0 {
							*t = refmath.Tensor{}
						}
					}
					return refmath.TopKMask(x[0], x[1], score, blocks, extra)
				},
			})
		}
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
