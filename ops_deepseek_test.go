package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestDeepSeekOps(t *testing.T) { runOps(t, deepSeekCases()) }

func deepSeekCases() []opCase {
	return []opCase{
		{
			name: "lightning_indexer", types: weightTypes(), layouts: denseOnly, bound: fed,
			args: func(d *draw) []arg {
				n, heads, batch, kv, shared := d.rowLen(40), d.size(4), d.size(5), d.size(30), d.size(2)
				all := shared * d.size(2)
				return []arg{d.f32(n, heads, batch, all), d.normal(n, 1, kv, all), d.f32(heads, batch, 1, all), d.f32(kv, batch, 1, shared).as(ggml.F16)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.LightningIndexer(x[0], x[1], x[2], x[3]) },
			want:  func(x refs) refmath.Tensor { return refmath.LightningIndexer(x[0], x[1], x[2], x[3]) },
		},
		{
			name: "streams_comb", layouts: denseOnly, bound: sums,
			args:  func(d *draw) []arg { return []arg{d.normal(24, d.size(5)), d.normal(3), d.normal(24)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.StreamsComb(x[0], x[1], x[2], 1e-3, 4) },
			want: func(x refs) refmath.Tensor {
				return refmath.StreamsComb(x[0], x[1], x[2], float64(float32(1e-3)), 4)
			},
		},
		{
			name: "streams_pre", layouts: denseOnly, bound: sums,
			args: func(d *draw) []arg {
				streams, tokens := d.size(9), d.size(5)
				return []arg{d.normal(d.size(40), streams, tokens), d.normal(streams, tokens)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.StreamsPre(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.StreamsPre(x[0], x[1]) },
		},
		{
			name: "streams_pre_gated", layouts: denseOnly, bound: sums,
			args: func(d *draw) []arg {
				n, streams, tokens := d.size(40), d.size(9), d.size(5)
				return []arg{d.normal(n, streams, tokens), d.normal(n, streams, tokens)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.StreamsPreGated(x[0], x[1], 0.5) },
			want:  func(x refs) refmath.Tensor { return refmath.StreamsPreGated(x[0], x[1], 0.5) },
		},
		{
			name: "streams_post", layouts: denseOnly, bound: sums,
			args: func(d *draw) []arg {
				n, tokens := d.size(40), d.size(5)
				return []arg{d.normal(n, tokens), d.normal(n, 4, tokens), d.normal(4, tokens), d.normal(4, 4, tokens)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.StreamsPost(x[0], x[1], x[2], x[3]) },
			want:  func(x refs) refmath.Tensor { return refmath.StreamsPost(x[0], x[1], x[2], x[3]) },
		},
		{
			name: "streams_post_identity", layouts: denseOnly, bound: sums,
			args: func(d *draw) []arg {
				n, tokens := d.size(40), d.size(5)
				return []arg{d.normal(n, tokens), d.normal(n, 4, tokens), d.normal(4, tokens)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.StreamsPost(x[0], x[1], x[2], nil) },
			want:  func(x refs) refmath.Tensor { return refmath.StreamsPost(x[0], x[1], x[2], refmath.Tensor{}) },
		},
	}
}

func TestStreamOpErrors(t *testing.T) {
	for want, build := range map[string]func(m *misuse){
		"lightning_indexer(a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3]): mask has type f32; it must have f16": func(m *misuse) { m.c.LightningIndexer(m.a, m.a, m.a, m.a) },
		"dsv4_hc_comb(a f32[4, 3], a f32[4, 3], a f32[4, 3]): there are 0 iterations; there must be 1 to 65536":      func(m *misuse) { m.c.StreamsComb(m.a, m.a, m.a, 0, 0) },
		"dsv4_hc_pre(a f32[4, 3], b f32[5, 2]): weights must be [3, 1]":                                              func(m *misuse) { m.c.StreamsPre(m.a, m.b) },
		"dsv4_hc_post(a f32[4, 3], a f32[4, 3], a f32[4, 3]): residual must be [4, 4, 3]":                            func(m *misuse) { m.c.StreamsPost(m.a, m.a, m.a, nil) },
	} {
		m := newMisuse()
		build(m)
		require.ErrorContains(t, m.c.Err(), want)
		m.c.Close()
	}
}
