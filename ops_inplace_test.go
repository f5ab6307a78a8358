package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func partInPlaceCases() []opCase {
	part := func(name string, op func(c *ctx, a, b *ggml.Tensor, strides [3]int64, offset int64) *ggml.Tensor, ref func(a, b refmath.Tensor, stride [3]int64, offset int64) refmath.Tensor) opCase {
		return opCase{
			Name: name, Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, InPlace: true,
			Operands: func(d *draw) []operand {
				return []operand{d.Normal(9, 5, 3, 2), d.Normal(d.Size(5), d.Size(3), d.Size(3), 2)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return op(c, x[0], x[1], [3]int64{36, 180, 540}, 36+8)
			},
			Want: func(x refs) refmath.Tensor { return ref(x[0], x[1], [3]int64{9, 45, 135}, 11) },
		}
	}
	return []opCase{
		part("acc_inplace", (*ctx).AccInPlace, refmath.Acc),
		part("set_inplace", (*ctx).SetInPlace, refmath.Set),
	}
}

func rowsInPlaceCases() []opCase {
	dup := opCase{
		Name: "dup_inplace", Types: movedTypes, Layouts: optest.ContiguousOnly, Operands: one, InPlace: true,
		Build: func(c *ctx, x tensors) *ggml.Tensor { return c.DupInPlace(x[0]) },
		Want:  func(x refs) refmath.Tensor { return x[0] },
	}
	unary := func(name string, layouts []optest.Layout, bound *optest.Bound, op func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor) opCase {
		return opCase{
			Name: name + "_inplace", Layouts: layouts, Bound: bound, Operands: one, InPlace: true,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return op(c, x[0]) },
			Want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	masked := opCase{
		Name: "soft_max_ext_inplace", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp, InPlace: true,
		Operands: func(d *draw) []operand {
			ne := d.Shape()
			return []operand{d.Normal(ne[:]...), d.Normal(ne[0], ne[1]+2), d.Normal(ne[2])}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor {
			return c.SoftMaxExtInPlace(x[0], ggml.SoftMaxOptions{Mask: x[1], Sinks: x[2], Scale: 0.5, MaxBias: 8})
		},
		Want: func(x refs) refmath.Tensor {
			return refmath.SoftMaxExt(x[0], x[1], x[2], 0.5, 8)
		},
	}
	back := opCase{
		Name: "soft_max_back_inplace", Layouts: optest.ContiguousOnly, Bound: optest.LongSum, Operands: pair, InPlace: true,
		Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxBackInPlace(x[0], x[1], 0.5) },
		Want:  func(x refs) refmath.Tensor { return refmath.SoftMaxExtBack(x[0], x[1], 0.5) },
	}
	rope := opCase{
		Name: "rope_inplace", Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.ContiguousRows, Bound: optest.Angles, InPlace: true,
		Operands: func(d *draw) []operand {
			tokens := d.Size(5)
			return []operand{d.Normal(16, d.Size(3), tokens, d.Size(2)), d.Indices(100, tokens)}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor {
			return c.RoPEInPlace(x[0], x[1], nil, ggml.RoPE{Dims: 12, Mode: ggml.RoPENeoX, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1})
		},
		Want: func(x refs) refmath.Tensor { return refmath.RopeExt(x[0], x[1], refmath.NewRoPE(12, true)) },
	}
	clamp := unary("clamp", optest.ContiguousOnly, optest.Exact, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ClampInPlace(a, -0.5, 1) },
		func(a refmath.Tensor) refmath.Tensor { return refmath.Clamp(a, -0.5, 1) })
	clamp.Types = []ggml.Type{ggml.F32, ggml.F16}
	leaky := unary("leaky_relu", optest.ContiguousOnly, optest.FewRoundings, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.LeakyReluInPlace(a, 0.1) },
		func(a refmath.Tensor) refmath.Tensor { return refmath.LeakyRelu(a, 0.1) })
	leaky.Types = clamp.Types
	return []opCase{
		masked, back, rope, clamp, leaky, dup,
		unary("scale", optest.ContiguousOnly, optest.FewRoundings, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ScaleInPlace(a, -1.5) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Scale(a, -1.5) }),
		unary("scale_bias", optest.ContiguousOnly, optest.FewRoundings, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ScaleBiasInPlace(a, 2.5, -0.25) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.ScaleBias(a, 2.5, -0.25) }),
		unary("fill", optest.ContiguousOnly, optest.Exact, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.FillInPlace(a, 2.5) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Fill(a, 2.5) }),
		unary("norm", optest.ContiguousRows, optest.LongSum, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.NormInPlace(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.Norm(a, eps64) }),
		unary("rms_norm", optest.ContiguousRows, optest.LongSum, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.RMSNormInPlace(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.RMSNorm(a, eps64) }),
		unary("l2_norm", optest.ContiguousRows, optest.LongSum, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.L2NormInPlace(a, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.L2Norm(a, eps64) }),
		unary("group_norm", optest.ContiguousOnly, optest.LongSum, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.GroupNormInPlace(a, 1, eps) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.GroupNorm(a, 1, eps64) }),
		unary("soft_max", optest.ContiguousOnly, optest.VectorExp, (*ctx).SoftMaxInPlace, refmath.SoftMax),
	}
}

// The operand itself changes, not only the result.
func TestInPlaceChangesOperand(t *testing.T) {
	m := optest.Devices(t)[0]
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	a := leaves.NewTensor(ggml.F32, 3)
	buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.NoError(t, ggml.Write(a, []float32{1, -2, 3}))
	m.Compute(t, c.NewGraph(c.ScaleInPlace(c.ReluInPlace(a), 2)))
	require.Equal(t, []float32{2, 0, 6}, optest.Values(t, a))
}

func TestDupInPlaceAndOwnStrides(t *testing.T) {
	m := optest.Devices(t)[0]
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	a, b, row := leaves.NewTensor(ggml.F32, 5, 3), leaves.NewTensor(ggml.F32, 2, 2), leaves.NewTensor(ggml.F32, 4)
	buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.NoError(t, ggml.Write(a, []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}))
	require.NoError(t, ggml.Write(b, []float32{-1, -2, -3, -4}))
	require.NoError(t, ggml.Write(row, []float32{-5, -6, -7, -8}))
	dup := c.DupInPlace(a)
	require.True(t, dup.IsView())
	second, first := c.Set(dup, b, [3]int64{}, 24), c.Set(dup, row, [3]int64{}, 4)
	added := c.Acc(dup, b, [3]int64{}, 4)
	m.Compute(t, c.NewGraph(second, first, added))
	require.Equal(t, []float32{0, 1, 2, 3, 4, 5, -1, -2, 8, 9, 10, -3, -4, 13, 14}, optest.Values(t, second))
	require.Equal(t, []float32{0, -5, -6, -7, -8, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, optest.Values(t, first))
	require.Equal(t, []float32{0, 0, 0, 3, 4, 5, 3, 3, 8, 9, 10, 11, 12, 13, 14}, optest.Values(t, added))
	require.Equal(t, float32(6), optest.Values(t, a)[6])

	c.Set(a, row, [3]int64{}, 48)
	require.ErrorContains(t, c.Err(), "the part ends at byte 64, a has 60")
}

func TestInPlaceErrors(t *testing.T) {
	requireOpErrors(t, []opError{
		{func(m *misuse) { m.c.SubInPlace(m.a, m.b) }, "sub_inplace(a f32[4, 3], b f32[5, 2]): dimension 0: 4 is not a multiple of 5, so the second operand cannot be repeated to the shape of the first"},
		{func(m *misuse) { m.c.ScaleInPlace(m.c.Transpose(m.a), 2) }, "scale_inplace(a (transposed) f32[3, 4]): the rows of a must be contiguous; call Cont"},
		{func(m *misuse) { m.c.ClampInPlace(m.a, 1, 0) }, "clamp_inplace(a f32[4, 3]): the low limit 1 is above the high limit 0"},
	})
}
