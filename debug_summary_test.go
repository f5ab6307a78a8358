package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

func TestSummaryFLOPs(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a, b := c.NewTensor(ggml.F32, 8, 3, 2), c.NewTensor(ggml.F32, 8, 5, 4)
	require.EqualValues(t, 2*8*3*5*4, c.NewGraph(c.MulMat(a, b)).Summary().FLOPs)
	u, v := c.NewTensor(ggml.F32, 3, 7), c.NewTensor(ggml.F32, 5, 7)
	require.EqualValues(t, 2*3*5*7, c.NewGraph(c.OutProd(u, v)).Summary().FLOPs)
	q := c.NewTensor(ggml.F32, 16, 5, 4)
	k, w := c.NewTensor(ggml.F16, 16, 9, 2), c.NewTensor(ggml.F16, 8, 9, 2)
	s := c.NewGraph(c.FlashAttention(q, k, w, ggml.AttentionOptions{Scale: 1})).Summary()
	require.NoError(t, c.Err())
	require.EqualValues(t, 2*(16+8)*5*4*9, s.FLOPs)
	require.Equal(t, "flash_attn_ext", s.Ops[0].Op)
}
