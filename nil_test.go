package ggml_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// A failed copy, to a nil graph or of an empty one, leaves no lock held.
func TestCopyToNobody(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	g := c.NewGraph(c.Neg(x))
	require.ErrorIs(t, (*ggml.Graph)(nil).CopyFrom(g), ggml.ErrZeroValue)
	_, err := g.Clone(nil, false)
	require.Error(t, err)
	empty := c.NewGraph()
	require.ErrorContains(t, c.NewGraph().CopyFrom(empty), "Graph.CopyFrom(graph of 0 nodes): the graph is empty; add tensors by Expand")
	alloc := optest.NewGraphAllocator(t)
	require.NoError(t, alloc.Allocate(g))
	require.NoError(t, optest.NewCPUBackend(t, 1).Compute(context.Background(), g))
	require.NoError(t, empty.CopyFrom(g))
}

func TestNilReadersAndWriters(t *testing.T) {
	_, err := ggml.ReadGGUF(nil, 100)
	require.EqualError(t, err, "ggml: GGUF data: the reader is nil")
	g := need.Value(ggml.NewGGUF())(t)
	defer g.Close()
	path := filepath.Join(t.TempDir(), "x.gguf")
	require.NoError(t, g.WriteFile(path))
	require.EqualError(t, ggml.EditGGUF(path, nil), "ggml: "+path+": the function that edits it is nil")
	_, err = g.WriteTo(nil)
	require.ErrorContains(t, err, "the writer is nil")
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.ErrorContains(t, x.Dump(nil, ggml.DumpOptions{}), "the writer is nil")
	require.ErrorContains(t, c.NewGraph(x).WriteDOT(nil), "the writer is nil")
	x.Format(nil, 'v')
	// A closed tensor differs from an unallocated one.
	require.NoError(t, c.Close())
	require.ErrorIs(t, g.AddTensor(x), ggml.ErrClosed)
	_, err = g.WriteTo(&bytes.Buffer{})
	require.NoError(t, err)
}
