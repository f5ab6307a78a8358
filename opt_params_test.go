package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

func TestContextParams(t *testing.T) {
	c := ggml.NewContext()
	c.NewTensor(ggml.F32, 1).SetName("x")
	w := c.NewTensor(ggml.F32, 2).SetName("w").SetParam()
	b := c.NewTensor(ggml.F32, 3).SetName("b").SetParam()
	c.Add(b, b)
	var found []*ggml.Tensor
	for p := range c.Params() {
		found = append(found, p)
	}
	require.Len(t, found, 2)
	require.True(t, found[0].Is(w) && found[1].Is(b))
	for p := range c.Params() {
		require.True(t, p.Is(w))
		break
	}
	c.Close()
	for range c.Params() {
		require.Fail(t, "a closed context has no parameters")
	}
}
