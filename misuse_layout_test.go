package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// Layouts in which the library would abort, or compute outside of a tensor.
func TestLayoutErrors(t *testing.T) {
	type build = func(c *ctx) *ggml.Tensor
	x := func(c *ctx, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	q := func(c *ctx, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.Q4_0, ne...) }
	turned := func(c *ctx) *ggml.Tensor { return c.Permute(x(c, 5, 4, 3), [4]int{2, 0, 1, 3}) } // [4, 3, 5]
	// Contiguous for the library, but rows are not at multiples of stride 1.
	odd := func(c *ctx) *ggml.Tensor { return c.Permute(x(c, 4, 3), [4]int{0, 2, 1, 3}) } // [4, 1, 3]
	same := func(c *ctx) *ggml.Tensor { return c.View(x(c, 4, 3), []int64{4, 3}, []int64{0}, 0) }
	const call = "; call Cont"
	for want, f := range map[string]build{
		"clamp: the rows of a must be contiguous" + call:       func(c *ctx) *ggml.Tensor { return c.Clamp(turned(c), 0, 1) },
		"repeat: the rows of a must be contiguous" + call:      func(c *ctx) *ggml.Tensor { return c.Repeat(turned(c), 4, 3, 10) },
		"repeat_back: the rows of a must be contiguous" + call: func(c *ctx) *ggml.Tensor { return c.RepeatBack(turned(c), x(c, 4, 3)) },
		"out_prod: the rows of a must be contiguous" + call:    func(c *ctx) *ggml.Tensor { return c.OutProd(turned(c), x(c, 2, 3, 5)) },
		"acc: the rows of b must be contiguous" + call:         func(c *ctx) *ggml.Tensor { return c.Acc(x(c, 60), turned(c), [3]int64{16, 48, 240}, 0) },
		"flash_attn_ext: the rows of q must be contiguous" + call: func(c *ctx) *ggml.Tensor {
			return c.FlashAttention(turned(c), x(c, 4, 2, 5), x(c, 4, 2, 5), nil, 1, 0, 0)
		},
		"silu_back: grad must be contiguous" + call:            func(c *ctx) *ggml.Tensor { return c.SiluBack(odd(c), odd(c)) },
		"soft_max_ext_back: grad must be contiguous" + call:    func(c *ctx) *ggml.Tensor { return c.SoftMaxBack(odd(c), odd(c), 1) },
		"cross_entropy_loss: logits must be contiguous" + call: func(c *ctx) *ggml.Tensor { return c.CrossEntropyLoss(odd(c), odd(c)) },
		"leaky_relu: a must be contiguous" + call:              func(c *ctx) *ggml.Tensor { return c.LeakyRelu(odd(c), 1) },
		"diag_mask_inf: a must be contiguous" + call:           func(c *ctx) *ggml.Tensor { return c.DiagMaskInf(c.Permute(x(c, 4, 3, 2), [4]int{0, 1, 3, 2}), 0) },
		"rope_ext: ne0 is 5; it must be even": func(c *ctx) *ggml.Tensor {
			return c.RoPE(x(c, 5, 1, 1), c.NewTensor(ggml.I32, 1), nil, ggml.RoPE{Dims: 4, FreqBase: 1, FreqScale: 1})
		},
		"neg_inplace: elements of a share memory, and cannot be":      func(c *ctx) *ggml.Tensor { return c.NegInPlace(same(c)) },
		"cpy: elements of b share memory, and cannot be written":      func(c *ctx) *ggml.Tensor { return c.Copy(x(c, 4, 3), same(c)) },
		"set: elements of the part share memory: with the shape [4 2": func(c *ctx) *ggml.Tensor { return c.Set(x(c, 4, 3), x(c, 4, 2), [3]int64{8, 48, 48}, 0) },
		"cpy: a must be contiguous, or have b's shape and contiguous": func(c *ctx) *ggml.Tensor { return c.Copy(c.Permute(q(c, 32, 4, 3), [4]int{0, 2, 1, 3}), q(c, 32, 12)) },
		"cpy: b must be contiguous" + call: func(c *ctx) *ggml.Tensor {
			return c.Copy(x(c, 32, 3, 4), c.Permute(q(c, 32, 4, 3), [4]int{0, 2, 1, 3}))
		},
		"cpy: ne0 must be equal: a has 64, b has 32": func(c *ctx) *ggml.Tensor { return c.Copy(x(c, 64, 3), q(c, 32, 6)) },
		"cpy: b must be contiguous, or its ne0 a multiple of the": func(c *ctx) *ggml.Tensor {
			return c.Copy(q(c, 32, 6), c.View(x(c, 20, 12), []int64{16, 12}, []int64{80}, 0))
		},
	} {
		c := ggml.NewContext()
		f(c)
		var e *ggml.OpError
		if assert.ErrorAs(t, c.Err(), &e, want) {
			assert.Contains(t, e.Op+": "+e.Reason, want)
		}
		c.Close()
	}
}

// What the library would crash on while it builds gradients.
func TestUntrainable(t *testing.T) {
	param := func(c *ctx, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...).SetParam() }
	for want, f := range map[string]func(c *ctx) *ggml.Tensor{
		"the parameter is overwritten by the copy": func(c *ctx) *ggml.Tensor { return c.Copy(c.Sqr(param(c, 4)), param(c, 4)) },
		"operand 2 is trained, but this op has no backward for it": func(c *ctx) *ggml.Tensor {
			return c.RoPE(param(c, 4, 1, 1), c.NewTensor(ggml.I32, 1), param(c, 2), ggml.RoPE{Dims: 4, FreqBase: 1, FreqScale: 1})
		},
		"this op has no backward": func(c *ctx) *ggml.Tensor {
			return c.Pool2D(c.NewTensor(ggml.F16, 4, 4).SetParam(), ggml.PoolAvg, [2]ggml.PoolDim{{Size: 2}, {Size: 2}})
		},
		"a view has a backward only where its operand is contiguous": func(c *ctx) *ggml.Tensor {
			return c.View(c.Permute(param(c, 4, 3, 2), [4]int{0, 2, 1, 3}), []int64{4}, nil, 0)
		},
	} {
		c := ggml.NewContext()
		g := c.NewTrainingGraph(c.Sum(f(c)).SetLoss())
		require.NoError(t, c.Err())
		require.ErrorContains(t, g.Backward(), want)
		c.Close()
	}
}

// The library keeps its plan of memory for the next graph with as many nodes,
// even when a leaf has no memory any more.
func TestAllocatorPlansAnew(t *testing.T) {
	backend, s := cpuBackend(t, 1), (*ggml.Scheduler)(nil)
	alloc := graphAllocator(t)
	s = scheduler(t, backend)
	for range 3 {
		for _, size := range []int64{4, 1000, 50} {
			leaves, c := ggml.NewContext(), ggml.NewContext()
			x := leaves.NewTensor(ggml.F32, size).SetInput()
			buffers, err := leaves.Allocate(ggml.CPUBufferType())
			require.NoError(t, err)
			g := c.NewGraph(c.View(c.SqrInPlace(c.View(x, []int64{size}, nil, 0)), []int64{2}, nil, 0))
			for _, a := range []interface{ Alloc(*ggml.Graph) error }{alloc, s} {
				require.NoError(t, a.Alloc(g))
			}
			buffers.Close()
			for _, a := range []interface{ Alloc(*ggml.Graph) error }{s, alloc} {
				require.NoError(t, a.Alloc(g))
				require.NoError(t, x.SetFloat32s(make([]float32, size)))
				require.NoError(t, backend.Compute(t.Context(), g))
			}
			c.Close()
			leaves.Close()
		}
	}
	// A leaf that nothing uses, and one that only views use.
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 4)
	require.NoError(t, s.Alloc(c.NewGraph(x)))
	require.NoError(t, s.Alloc(c.NewGraph(c.Reshape(x, 2, 2))))
}
