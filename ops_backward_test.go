package ggml_test

import (
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestBackwardOps(t *testing.T) { runOps(t, backwardCases()) }

func backwardCases() []opCase {
	probabilities := func(d *draw) []arg {
		ne := [4]int64{2 + d.size(40), d.size(5), 1, 1}
		labels := refmath.SoftMax(refmath.Normal(d.Rand, 1, ne[:]...))
		return []arg{d.f32(1), d.normal(ne[:]...), arg{values: labels}.as(ggml.F32)}
	}
	return []opCase{
		{
			name: "silu_back", types: []ggml.Type{ggml.F32, ggml.F16}, layouts: denseOnly, bound: sums, args: pair,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SiluBack(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.SiluBack(x[0], x[1]) },
		},
		{
			name: "rms_norm_back", layouts: denseRows, bound: fed, args: pair,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.RMSNormBack(x[0], x[1], 1e-2) },
			want:  func(x refs) refmath.Tensor { return refmath.RMSNormBack(x[0], x[1], float64(float32(1e-2))) },
		},
		{
			name: "soft_max_ext_back", layouts: denseOnly, bound: sums,
			args: func(d *draw) []arg {
				ne := d.shape()
				y := refmath.SoftMax(refmath.Normal(d.Rand, 1, ne[:]...))
				return []arg{d.normal(ne[:]...), arg{values: y}.as(ggml.F32)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxBack(x[0], x[1], 0.5) },
			want:  func(x refs) refmath.Tensor { return refmath.SoftMaxExtBack(x[0], x[1], 0.5) },
		},
		{
			name: "cross_entropy_loss", layouts: denseOnly, bound: sums, args: probabilities,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.CrossEntropyLoss(x[1], x[2]) },
			want:  func(x refs) refmath.Tensor { return refmath.CrossEntropyLoss(x[1], x[2]) },
		},
		{
			name: "cross_entropy_loss_back", layouts: denseOnly, bound: sums, args: probabilities,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.CrossEntropyLossBack(x[0], x[1], x[2]) },
			want:  func(x refs) refmath.Tensor { return refmath.CrossEntropyLossBack(x[0], x[1], x[2]) },
		},
	}
}
