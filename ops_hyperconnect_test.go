package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func hyperConnectCases() []opCase {
	return []opCase{
		{
			Name: "lightning_indexer", Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.Recurrence,
			Operands: func(d *draw) []operand {
				n, heads, batch, kv, shared := d.RowLen(40), d.Size(4), d.Size(5), d.Size(30), d.Size(2)
				all := shared * d.Size(2)
				return []operand{d.F32(n, heads, batch, all), d.Normal(n, 1, kv, all), d.F32(heads, batch, 1, all), d.F32(kv, batch, 1, shared).As(ggml.F16)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.LightningIndexer(x[0], x[1], x[2], x[3]) },
			Want:  func(x refs) refmath.Tensor { return refmath.LightningIndexer(x[0], x[1], x[2], x[3]) },
		},
		{
			Name: "hyper_connect_comb", Layouts: optest.ContiguousOnly, Bound: optest.LongSum,
			Operands: func(d *draw) []operand { return []operand{d.Normal(24, d.Size(5)), d.Normal(3), d.Normal(24)} },
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.HyperConnectComb(x[0], x[1], x[2], ggml.Sinkhorn{Eps: 1e-3, Iterations: 4})
			},
			Want: func(x refs) refmath.Tensor {
				return refmath.HyperConnectComb(x[0], x[1], x[2], float64(float32(1e-3)), 4)
			},
		},
		{
			Name: "hyper_connect_pre", Layouts: optest.ContiguousOnly, Bound: optest.LongSum,
			Operands: func(d *draw) []operand {
				streams, tokens := d.Size(9), d.Size(5)
				return []operand{d.Normal(d.Size(40), streams, tokens), d.Normal(streams, tokens)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.HyperConnectPre(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.HyperConnectPre(x[0], x[1]) },
		},
		{
			Name: "hyper_connect_pre_gated", Layouts: optest.ContiguousOnly, Bound: optest.LongSum,
			Operands: func(d *draw) []operand {
				n, streams, tokens := d.Size(40), d.Size(9), d.Size(5)
				return []operand{d.Normal(n, streams, tokens), d.Normal(n, streams, tokens)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.HyperConnectPreGated(x[0], x[1], 0.5) },
			Want:  func(x refs) refmath.Tensor { return refmath.HyperConnectPreGated(x[0], x[1], 0.5) },
		},
		{
			Name: "hyper_connect_post", Layouts: optest.ContiguousOnly, Bound: optest.LongSum,
			Operands: func(d *draw) []operand {
				n, tokens := d.Size(40), d.Size(5)
				return []operand{d.Normal(n, tokens), d.Normal(n, 4, tokens), d.Normal(4, tokens), d.Normal(4, 4, tokens)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.HyperConnectPost(x[0], x[1], x[2], x[3]) },
			Want:  func(x refs) refmath.Tensor { return refmath.HyperConnectPost(x[0], x[1], x[2], x[3]) },
		},
		{
			Name: "hyper_connect_post_identity", Layouts: optest.ContiguousOnly, Bound: optest.LongSum,
			Operands: func(d *draw) []operand {
				n, tokens := d.Size(40), d.Size(5)
				return []operand{d.Normal(n, tokens), d.Normal(n, 4, tokens), d.Normal(4, tokens)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.HyperConnectPost(x[0], x[1], x[2], nil) },
			Want:  func(x refs) refmath.Tensor { return refmath.HyperConnectPost(x[0], x[1], x[2], refmath.Tensor{}) },
		},
	}
}

func TestHyperConnectErrors(t *testing.T) {
	for want, build := range map[string]func(m *misuse){
		"lightning_indexer(a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3]): mask has type f32; it must have f16": func(m *misuse) { m.c.LightningIndexer(m.a, m.a, m.a, m.a) },
		"dsv4_hc_comb(a f32[4, 3], a f32[4, 3], a f32[4, 3]): there are 0 iterations; there must be 1 to 65536":      func(m *misuse) { m.c.HyperConnectComb(m.a, m.a, m.a, ggml.Sinkhorn{}) },
		"dsv4_hc_pre(a f32[4, 3], b f32[5, 2]): weights must be [3, 1]":                                              func(m *misuse) { m.c.HyperConnectPre(m.a, m.b) },
		"dsv4_hc_post(a f32[4, 3], a f32[4, 3], a f32[4, 3]): residual must be [4, 4, 3]":                            func(m *misuse) { m.c.HyperConnectPost(m.a, m.a, m.a, nil) },
	} {
		m := newMisuse()
		build(m)
		require.ErrorContains(t, m.c.Err(), want)
		m.c.Close()
	}
}
