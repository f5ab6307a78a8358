package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// Graphs for which ggml would crash while it builds gradients.
func TestBackwardErrors(t *testing.T) {
	param := func(c *ctx, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...).SetParam() }
	for want, f := range map[string]func(c *ctx) *ggml.Tensor{
		"the parameter is overwritten by the copy": func(c *ctx) *ggml.Tensor { return c.Copy(c.Sqr(param(c, 4)), param(c, 4)) },
		"operand 2 is trained, but this op has no backward for it": func(c *ctx) *ggml.Tensor {
			return c.RoPE(param(c, 4, 1, 1), c.NewTensor(ggml.I32, 1), param(c, 2), ggml.RoPE{Dims: 4, FreqBase: 1, FreqScale: 1})
		},
		"this op has no backward": func(c *ctx) *ggml.Tensor {
			return c.Pool2D(c.NewTensor(ggml.F16, 4, 4).SetParam(), ggml.PoolAvg, [2]ggml.PoolDim{{Size: 2}, {Size: 2}})
		},
		"a view has a backward only if its operand is contiguous": func(c *ctx) *ggml.Tensor {
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

// A trained kernel whose values are not used.
func TestBackwardOfUnusedKernel(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	kernel := c.NewTensor(ggml.F32, 3, 3, 2, 4).SetParam()
	x := c.NewTensor(ggml.F32, 8, 8, 2).SetParam()
	y := c.Im2Col(kernel, x, ggml.F32, ggml.ConvDim{}, ggml.ConvDim{})
	g := c.NewTrainingGraph(c.Sum(y).SetLoss())
	require.ErrorContains(t, g.Backward(), "the kernel is a parameter, but no later op uses its values")

	a, b := c.NewTensor(ggml.F32, 4).SetParam(), c.NewTensor(ggml.F32, 4).SetParam()
	g = c.NewTrainingGraph(c.Sum(c.Copy(a, b)).SetLoss())
	require.ErrorContains(t, g.Backward(), "the parameter is overwritten by the copy, so that it has no gradient")
}
