package ggml_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

func TestSourcesAndViews(t *testing.T) {
	other, c := ggml.NewContext(), ggml.NewContext()
	defer other.Close()
	defer c.Close()
	x := other.NewTensor(ggml.F32, 4, 4).SetName("x")
	require.Empty(t, x.Sources())
	_, found := x.ViewSource()
	require.False(t, found)
	row := c.View(x, []int64{4}, nil, x.Stride(1))
	part := c.View(row, []int64{2}, nil, 8)
	source, found := part.ViewSource()
	require.True(t, found)
	require.True(t, source.Is(x), "a view of a view is one of the origin")
	require.Same(t, other, source.Context())
	require.EqualValues(t, 24, part.ViewOffset())
	require.True(t, part.Sources()[0].Is(row))

	mask := c.NewTensor(ggml.F32, 4, 4)
	require.Len(t, c.SoftMaxExt(x, ggml.SoftMaxOptions{Mask: mask}).Sources(), 2)
	require.Len(t, c.SoftMax(x).Sources(), 1)

	var none *ggml.Tensor
	require.Empty(t, none.Sources())
	_, found = none.ViewSource()
	require.False(t, found)
	require.Zero(t, none.ViewOffset())
	other.Close()
	require.Empty(t, part.Sources())
	_, found = part.ViewSource()
	require.False(t, found)
}

func TestTensorBufferType(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 4, 4)
	view := c.View(x, []int64{4}, nil, x.Stride(1))
	require.Nil(t, x.BufferType())
	require.Nil(t, view.BufferType())
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	for _, y := range []*ggml.Tensor{x, view} {
		require.Equal(t, ggml.CPUBufferType().Name(), y.BufferType().Name())
	}
	buffers.Close()
	require.Nil(t, x.BufferType())
	require.Nil(t, (*ggml.Tensor)(nil).BufferType())
}

// Leaves include leaves that no node uses, and parameters.
func TestLeaves(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	p := c.NewTensor(ggml.F32, 3).SetParam()
	lone := c.NewTensor(ggml.F32, 3)
	loss := c.Sum(c.Sqr(p)).SetLoss()
	g := c.NewTrainingGraph(loss, lone)
	require.NoError(t, g.Backward())
	var leaves []*ggml.Tensor
	for x := range g.Leaves() {
		leaves = append(leaves, x)
	}
	require.True(t, leaves[0].Is(p))
	found := false
	for _, x := range leaves {
		require.Equal(t, "none", x.Op())
		found = found || x.Is(lone)
	}
	require.True(t, found)
	for range g.Leaves() {
		break // stops the iteration early
	}
	require.Empty(t, c.NewGraph().Summary().Ops)
	c.Close()
	require.Zero(t, g.Summary().Nodes)
}

// Inspecting while others allocate, compute and close is safe.
func TestInspectConcurrently(t *testing.T) {
	backend := need.Value(ggml.NewCPUBackend(1))(t)
	defer backend.Close()
	alloc := need.Value(ggml.NewGraphAllocator(ggml.CPUBufferType()))(t)
	defer alloc.Close()
	c := ggml.NewContext()
	x := c.NewTensor(ggml.F32, 64).SetInput()
	g := c.NewGraph(c.SoftMax(c.Sqr(x)))
	var wait sync.WaitGroup
	for range 2 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 100 {
				var out strings.Builder
				_ = g.WriteDOT(&out)
				_ = g.Summary().String()
				_ = fmt.Sprintf("%+v", x)
				_, err := ggml.MemoryReport()
				assert.NoError(t, err)
			}
		}()
	}
	for range 50 {
		require.NoError(t, alloc.Allocate(g))
		require.NoError(t, backend.Compute(context.Background(), g))
		g.Expand(c.Neg(x))
	}
	c.Close()
	wait.Wait()
}
