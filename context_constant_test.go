package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
)

func TestConstants(t *testing.T) {
	w := optest.NewWorkbench(t)
	before := ggml.OpenObjects()["buffer"]
	c := ggml.NewContext()
	x, n := c.NewF32(2.5), c.NewI32(-7)
	require.Equal(t, []float32{2.5}, optest.Values(t, x))
	require.Equal(t, []float32{-7}, optest.Values(t, n))
	y := w.Mul(w.Leaf(1, 2, 3), x).SetOutput()
	w.Compute(w.NewGraph(y))
	require.Equal(t, []float32{2.5, 5, 7.5}, optest.Values(t, y))
	require.Equal(t, before+3, ggml.OpenObjects()["buffer"]) // including the leaf's
	w.Close()
	c.Close()
	require.Equal(t, before+1, ggml.OpenObjects()["buffer"])
	require.False(t, x.IsAllocated())
	require.ErrorIs(t, c.NewF32(1).Fill(1), ggml.ErrClosed)
}
