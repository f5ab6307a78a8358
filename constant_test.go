package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

func TestConstants(t *testing.T) {
	w := newWorkbench(t)
	before := ggml.OpenObjects()["buffer"]
	c := ggml.NewContext()
	x, n := c.NewF32(2.5), c.NewI32(-7)
	require.Equal(t, []float32{2.5}, numbers(t, x))
	require.Equal(t, []float32{-7}, numbers(t, n))
	y := w.Mul(w.leaf(1, 2, 3), x).SetOutput()
	w.compute(w.NewGraph(y))
	require.Equal(t, []float32{2.5, 5, 7.5}, numbers(t, y))
	require.Equal(t, before+3, ggml.OpenObjects()["buffer"]) // the leaf's too
	w.Close()
	c.Close()
	require.Equal(t, before+1, ggml.OpenObjects()["buffer"])
	require.False(t, x.Allocated())
	require.ErrorIs(t, c.NewF32(1).SetFloat32(1), ggml.ErrClosed)
}
