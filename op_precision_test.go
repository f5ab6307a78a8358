package ggml_test

import (
	"math"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A setting may change how a result is computed, but not its value.
func TestPrecisionSettings(t *testing.T) {
	product := func(name string, set func(y *ggml.Tensor) *ggml.Tensor) opCase {
		return opCase{
			Name: name, Types: []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0}, Layouts: optest.ContiguousOnly, Bound: optest.MulMat, Runs: 3,
			Operands: func(d *draw) []operand { return []operand{d.Normal(64, 5, 1, 1), d.F32(64, 7)} },
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				y := c.MulMat(x[0], x[1])
				require.True(t, set(y).Is(y))
				return y
			},
			Want: func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
		}
	}
	optest.Run(t, []opCase{
		product("acc_f32", func(y *ggml.Tensor) *ggml.Tensor { return y.SetAccPrecision(ggml.PrecisionF32) }),
		product("acc_f16", func(y *ggml.Tensor) *ggml.Tensor { return y.SetAccPrecision(ggml.PrecisionF16) }),
		product("src_f32", func(y *ggml.Tensor) *ggml.Tensor { return y.SetSourcePrecision(1, ggml.PrecisionF32) }),
		product("src_q4", func(y *ggml.Tensor) *ggml.Tensor { return y.SetSourcePrecision(1, ggml.PrecisionQ4) }),
	})
}

// hadamard returns the matrix of Sylvester's construction, scaled to be orthogonal.
func hadamard(n int64) refmath.Tensor {
	h := refmath.New(n, n)
	for i := range h.Data {
		h.Data[i] = 1 / math.Sqrt(float64(n))
		if bits.OnesCount64(uint64(int64(i)/n&(int64(i)%n)))%2 == 1 {
			h.Data[i] = -h.Data[i]
		}
	}
	return h
}

func TestHadamard(t *testing.T) {
	optest.Run(t, []opCase{{
		Name: "hadamard", Layouts: optest.ContiguousRows, Bound: optest.LongSum,
		Operands: func(d *draw) []operand {
			n := int64(1) << d.IntN(8)
			return []operand{{Values: hadamard(n), Type: ggml.F32}, d.Normal(n, d.Size(5), d.Size(3), 1)}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]).SetHadamard() },
		Want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
	}})
}

func TestFlashAttentionSettings(t *testing.T) {
	m := optest.Devices(t)[0]
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	q, k, v := leaves.NewTensor(ggml.F32, 64, 5, 2), leaves.NewTensor(ggml.F16, 64, 40, 2), leaves.NewTensor(ggml.F16, 64, 40, 2)
	mask := leaves.NewTensor(ggml.F16, 40, 5)
	buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	for _, x := range []*ggml.Tensor{q, k, v} {
		require.NoError(t, x.SetFloat32s(optest.Normal(3, int(x.NumElements()))))
	}
	finite := make([]float32, mask.NumElements())
	for i := range finite {
		if i%40 >= 9 {
			finite[i] = float32(math.Inf(-1))
		}
	}
	require.NoError(t, mask.SetFloat32s(finite))
	y := c.FlashAttention(q, k, v, ggml.AttentionOptions{Mask: mask, Scale: 0.1})
	require.Equal(t, ggml.PrecisionAny, y.AccPrecision())
	z := c.FlashAttention(q, k, v, ggml.AttentionOptions{Mask: mask, Scale: 0.1}).SetAccPrecision(ggml.PrecisionF32).SetMaxKeys(9)
	require.Equal(t, ggml.PrecisionF32, z.AccPrecision())
	require.Equal(t, ggml.PrecisionAny, q.AccPrecision())
	product := c.MulMat(leaves.NewTensor(ggml.Q8_0, 64, 5), q).SetSourcePrecision(1, ggml.PrecisionQ8).SetAccPrecision(ggml.PrecisionBF16)
	require.Equal(t, ggml.PrecisionBF16, product.AccPrecision())
	require.Equal(t, ggml.PrecisionQ8, product.SourcePrecision(1))
	for _, source := range []int{0, -1, 1 << 40} {
		require.Equal(t, ggml.PrecisionAny, product.SourcePrecision(source))
	}
	m.Compute(t, c.NewGraph(y, z))
	require.LessOrEqual(t, refmath.MaxAbsDiff(refmath.From(optest.Values(t, y)).Data, refmath.From(optest.Values(t, z)).Data), 1e-3)
}

func TestPrecisionErrors(t *testing.T) {
	for want, build := range map[string]func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor{
		"prec_set_acc(a f32[4, 3]): the op none has no such setting": func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor { return a.SetAccPrecision(ggml.PrecisionF32) },
		"the precision is q8; it must be any, f32, bf16 or f16": func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor {
			return c.MulMat(a, a).SetAccPrecision(ggml.PrecisionQ8)
		},
		"() f32[4, 4]): the op ": func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor {
			return c.OutProd(a, a).SetAccPrecision(ggml.PrecisionF16)
		},
		"the precision is Precision(11)": func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor { return c.MulMat(a, a).SetAccPrecision(11) },
		"source 0, precision f32: only source 1, the second operand, has one": func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor {
			return c.MulMat(a, a).SetSourcePrecision(0, ggml.PrecisionF32)
		},
		"prec_set_src(add() f32[4, 3]): the op add has no such setting": func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor {
			return c.Add(a, a).SetSourcePrecision(1, ggml.PrecisionF32)
		},
		"mul_mat_set_hint(a f32[4, 3]): the tensor must come from MulMat": func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor { return a.SetHadamard() },
		"mul_mat_set_hint(mul_mat() f32[3, 3]): the tensor must come":     func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor { return c.MulMat(a, a).SetHadamard() },
		"flash_attn_ext_set_n_kv_max(a f32[4, 3]): -1 keys":               func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor { return a.SetMaxKeys(-1) },
		"flash_attn_ext_set_n_kv_max(a f32[4, 3]): 1 keys: the number must not be negative, nor above 2147483647, and the tensor must come from FlashAttention": func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor { return a.SetMaxKeys(1) },
		"sub(a f32[4, 3], leaf f32[5]): dimension 0: 4 is not a multiple of 5, ": func(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor {
			return c.Sub(a, c.NewTensor(ggml.F32, 5)).SetHadamard()
		},
	} {
		c := ggml.NewContext()
		y := build(c, c.NewTensor(ggml.F32, 4, 3).SetName("a"))
		require.ErrorContains(t, c.Err(), want)
		require.Error(t, optest.Err(y.ReadAt(nil, 0)))
		c.Close()
	}
	var none *ggml.Tensor
	require.Nil(t, none.SetHadamard())
}
