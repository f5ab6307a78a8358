package ggml

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A context for which there is no memory says so, whatever is done with it.
func TestContextWithoutMemory(t *testing.T) {
	open := OpenObjects()["context"]
	c := newContext(nil, nil)
	require.Equal(t, open, OpenObjects()["context"])
	require.ErrorIs(t, c.Err(), ErrOutOfMemory)
	x := c.NewTensor(F32, 4)
	c.NewGraph(c.Sqr(x))
	require.ErrorIs(t, c.Err(), ErrOutOfMemory)
	_, err := c.Allocate(CPUBufferType())
	require.ErrorIs(t, err, ErrOutOfMemory)
	_, err = Read[float32](x)
	require.ErrorIs(t, err, ErrOutOfMemory)
	for range c.Tensors() {
		t.Fatal("there is a tensor")
	}
	_, ok := c.Lookup("x")
	require.False(t, ok)
	require.NoError(t, c.Close())
}
