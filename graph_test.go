package ggml_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

func TestGraphErrors(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3).SetName("x")
	y := c.Sum(c.Sqr(x)).SetName("y")
	plain := c.NewGraph(y)
	require.ErrorContains(t, plain.Backward(), "ggml: Graph.Backward(graph of 2 nodes): the graph has no room for gradients; make it with NewTrainingGraph (at graph_test.go:")
	require.False(t, optest.Finds(plain.Grad(x)))
	g := c.NewTrainingGraph(y)
	require.ErrorContains(t, g.Backward(), "no tensor of the graph is marked as the loss; call SetLoss")
	require.False(t, optest.Finds(g.Grad(x)))
	y.SetLoss()
	require.ErrorContains(t, g.Backward(), "no tensor of the graph is marked as a parameter; call SetParam")
	x.SetParam()
	for want, z := range map[string]*ggml.Tensor{
		"ggml: Graph.Backward(tanh() f32[3]): this op has no backward":                          c.Tanh(x),
		"ggml: Graph.Backward(norm() f32[3]): this op has no backward":                          c.Norm(x, 1e-5),
		"ggml: Graph.Backward(swiglu() f32[3]): this op has no backward":                        c.GLU(ggml.SwiGLU, c.Repeat(x, 6), false),
		"ggml: Graph.Backward(clamp() f32[3]): this op has no backward":                         c.Clamp(x, 0, 1),
		"ggml: Graph.Backward(x (view) f32[3]): this op works in place, and so has no backward": c.AddInPlace(x, x),
		"ggml: Graph.Backward(soft_max() f32[3]): this op has no backward":                      c.SoftMaxExt(x, ggml.SoftMaxOptions{Mask: c.NewTensor(ggml.F32, 3), MaxBias: 8}),
	} {
		require.ErrorContains(t, c.NewTrainingGraph(c.Sum(z).SetLoss()).Backward(), want)
	}
	require.NoError(t, c.Err())
	vector := c.Sqr(x).SetName("v").SetLoss()
	require.ErrorContains(t, c.NewTrainingGraph(vector).Backward(), "ggml: Graph.Backward(v f32[3]): the loss must be a single f32 number; call Sum")
	require.ErrorIs(t, g.Reset(), ggml.ErrNotAllocated)
	trained := c.NewTrainingGraph(y)
	require.NoError(t, trained.Backward())
	require.True(t, optest.Finds(trained.Grad(x)))
	require.False(t, optest.Finds(trained.Grad(nil)))
	require.ErrorContains(t, trained.Backward(), "the graph has its gradients already")
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.ErrorContains(t, plain.Reset(), "the graph has no gradients; call Backward first")
	require.NoError(t, trained.Reset())
}

// Error messages name nodes of other contexts.
func TestNodesOfOtherContexts(t *testing.T) {
	a, b := ggml.NewContext(), ggml.NewContext()
	defer b.Close()
	inner := a.Neg(a.NewTensor(ggml.F32, 2)).SetName("inner")
	outer := b.Abs(inner).SetName("outer")
	g := b.NewGraph(outer)
	var names []string
	for n := range g.Nodes() {
		names = append(names, n.Name())
		require.Equal(t, n.Name() == "inner", n.Context() == a)
	}
	require.Equal(t, []string{"inner", "outer"}, names)
	a.Close()
	for range g.Nodes() {
		t.Fatal("a node of a closed context")
	}
}

// ggml's recursion over the operands would overflow the stack.
func TestDeepGraph(t *testing.T) {
	b := newAddition(t)
	y := b.a
	for range 300_000 {
		y = b.c.Neg(y)
	}
	g := b.c.NewGraph(y)
	require.Equal(t, 300_000, g.NumNodes())
	require.NoError(t, b.alloc.Allocate(g))
	require.NoError(t, b.backend.Compute(context.Background(), g))
	got := need.Value(ggml.Read[float32](y))(t)
	require.Equal(t, []float32{1, 2, 3, 4}, got)
}
