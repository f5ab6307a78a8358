package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/testhook"
)

// A context without memory reports so in every use.
func TestContextWithoutMemory(t *testing.T) {
	open := ggml.OpenObjects()["context"]
	testhook.NoMemory = true
	c := ggml.NewContext()
	testhook.NoMemory = false
	require.Equal(t, open, ggml.OpenObjects()["context"])
	require.ErrorIs(t, c.Err(), ggml.ErrOutOfMemory)
	x := c.NewTensor(ggml.F32, 4)
	c.NewGraph(c.Sqr(x))
	require.ErrorIs(t, c.Err(), ggml.ErrOutOfMemory)
	_, err := c.Allocate(ggml.CPUBufferType())
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	_, err = ggml.Read[float32](x)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	for range c.Tensors() {
		t.Fatal("there is a tensor")
	}
	_, ok := c.Tensor("x")
	require.False(t, ok)
	require.NoError(t, c.Close())
}
