package ggml_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

func TestGraphSelect(t *testing.T) {
	w := optest.NewWorkbench(t)
	x := w.Leaf(1, 2, 3)
	for chosen := range 3 {
		branches := []*ggml.Tensor{
			w.Scale(w.Sqr(x), 2).SetName("first").SetOutput(),
			w.Neg(x).SetName("second").SetOutput(),
			w.Add(x, x).SetName("third").SetOutput(),
		}
		g := w.NewGraph()
		y := g.Select(chosen, branches...)
		require.True(t, y.Is(branches[chosen]))
		z := w.Sum(y)
		g.Expand(z.SetOutput())
		require.Equal(t, 5, g.NumNodes())
		require.Equal(t, []string{"first", "second", "third"}, nodeNames(g)[1:4]) // for any choice
		w.Compute(g)
		require.Equal(t, [][]float32{{2, 8, 18}, {-1, -2, -3}, {2, 4, 6}}[chosen], optest.Values(t, y))
		require.Equal(t, [][]float32{{28}, {-6}, {12}}[chosen], optest.Values(t, z))
		for i, b := range branches {
			require.Equal(t, i == chosen, b.IsComputed())
			if i != chosen {
				_, err := ggml.Read[float32](b)
				require.ErrorContains(t, err, "no graph computes this tensor; add it by Expand, or choose its branch by Select")
			}
		}
	}
	require.False(t, x.IsComputed())
}

// The indices of an unselected branch are not checked.
func TestGraphSelectSkipsIndices(t *testing.T) {
	w := optest.NewWorkbench(t)
	table, ids := w.Leaves.NewTensor(ggml.F32, 2, 3), w.Leaves.NewTensor(ggml.I32, 2)
	buffers := need.Value(w.Leaves.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.NoError(t, ggml.Write(table, []float32{1, 2, 3, 4, 5, 6}))
	require.NoError(t, ggml.Write(ids, []int32{-5, 1 << 30}))
	g := w.NewGraph()
	y := g.Select(1, w.GetRows(table, ids), w.View(table, []int64{2, 2}, nil, 8))
	z := w.Neg(y).SetOutput()
	g.Expand(z)
	w.Compute(g)
	require.Equal(t, []float32{-3, -4, -5, -6}, optest.Values(t, z))
	g.Expand(w.GetRows(table, ids).SetOutput())
	require.NoError(t, w.Allocator.Allocate(g))
	require.ErrorContains(t, w.Backend.Compute(context.Background(), g), "row index -5 is out of range: there are 3 rows")
}

func TestGraphOrder(t *testing.T) {
	w := optest.NewWorkbench(t)
	x := w.Leaf(2)
	a, b := w.Sqr(x).SetName("a"), w.Neg(x).SetName("b")
	c := w.Add(a, x).SetName("c")
	g := w.NewGraph().Order(b, c)
	require.Equal(t, []string{"b", "a", "c"}, nodeNames(g))
	require.False(t, a.IsComputed() || b.IsComputed() || c.IsComputed())
	g.Expand(c.SetOutput())
	require.Equal(t, []string{"b", "a", "c"}, nodeNames(g))
	require.True(t, a.IsComputed() && c.IsComputed())
	require.False(t, b.IsComputed())
	w.Compute(g)
	require.Equal(t, []float32{6}, optest.Values(t, c))

	// A chain too long for ggml's recursion.
	const depth = 30000
	y := x
	for range depth {
		y = w.ScaleBias(y, 1, 1)
	}
	long := w.NewGraph().Order(y)
	require.Equal(t, depth, long.NumNodes())
	require.False(t, y.IsComputed())
	long.Expand(y.SetOutput())
	require.Equal(t, depth, long.NumNodes())
	w.Compute(long)
	require.Equal(t, []float32{depth + 2}, optest.Values(t, y))
}

func TestGraphAddNode(t *testing.T) {
	w := optest.NewWorkbench(t)
	x := w.Leaf(3)
	a, b := w.Sqr(x).SetName("a"), w.Neg(x).SetName("b").SetOutput()
	g := w.NewGraph(a).AddNode(b)
	require.Equal(t, []string{"a", "b"}, nodeNames(g))
	c := w.Mul(a, b).SetName("c").SetOutput()
	half := w.Cast(c, ggml.F16).SetOutput() // its own operand
	g.AddNode(c, half)
	w.Compute(g)
	require.Equal(t, []float32{-27}, optest.Values(t, c))
	require.Equal(t, []float32{-27}, optest.Values(t, half))
	layout := ggml.Layout{Type: ggml.F32, Shape: [ggml.MaxDims]int64{1, 1, 1, 1}, Stride: [ggml.MaxDims]int64{4, 4, 4, 4}}
	of := w.Leaf(2, 5)
	sum := w.Add(w.AliasOf(of, layout, 4), w.AliasOf(x, layout, 0)).SetOutput() // leaves of leaves: room for all
	w.Compute(w.NewGraph().AddNode(sum))
	require.Equal(t, []float32{8}, optest.Values(t, sum))
	g.AddNode(a)
	require.ErrorContains(t, w.Err(), "Graph.AddNode(a f32[1]): the graph has this tensor already")

	other := optest.NewWorkbench(t)
	other.NewGraph().AddNode(other.Sqr(other.Neg(x).SetName("n")))
	require.ErrorContains(t, other.Err(), "Graph.AddNode(sqr() f32[1]): operand 0 is not in the graph; call Expand")
}

func TestGraphClear(t *testing.T) {
	w := optest.NewWorkbench(t)
	x := w.Leaf(1, 2).SetParam()
	g := w.NewTrainingGraph(w.Sum(w.Sqr(x)).SetLoss())
	require.NoError(t, g.Backward())
	require.True(t, optest.Finds(g.Grad(x)))
	room := g.Capacity()
	require.GreaterOrEqual(t, room, g.NumNodes())
	g.Clear()
	require.Zero(t, g.NumNodes())
	require.Equal(t, room, g.Capacity())
	require.False(t, optest.Finds(g.Grad(x)))
	require.False(t, optest.Finds(g.GradAcc(x)))
	require.Empty(t, slices.Collect(g.Leaves()))

	loss := w.Sum(w.Scale(x, 3)).SetLoss()
	g.Expand(loss)
	require.False(t, optest.Finds(g.Grad(x)))
	require.NoError(t, g.Backward())
	g.Expand(optest.Found(g.Grad(x)).SetOutput())
	require.NoError(t, w.Allocator.Allocate(g))
	require.NoError(t, g.Reset())
	require.NoError(t, w.Backend.Compute(context.Background(), g))
	require.Equal(t, []float32{3, 3}, optest.Values(t, optest.Found(g.Grad(x))))
	require.True(t, optest.Finds(g.GradAcc(loss)))
}

func TestGraphClone(t *testing.T) {
	w := optest.NewWorkbench(t)
	x := w.Leaf(5)
	y := w.Sqr(x).SetName("y").SetOutput()
	g := w.NewGraph(y)
	own := ggml.NewContext()
	defer own.Close()
	clone := need.Value(g.Clone(own, true))(t)
	require.Equal(t, nodeNames(g), nodeNames(clone))
	z := own.Neg(y).SetName("z").SetOutput()
	clone.Expand(z)
	require.Equal(t, []string{"y"}, nodeNames(g))
	require.Equal(t, []string{"y", "z"}, nodeNames(clone))
	w.Compute(clone)
	require.Equal(t, []float32{-25}, optest.Values(t, z))

	// From one graph to another; the target needs room for gradients.
	into := w.NewGraph(w.Sqr(w.Leaf(1)).SetName("old"))
	require.NoError(t, into.CopyFrom(g))
	require.Equal(t, []string{"y"}, nodeNames(into))
	require.NoError(t, into.CopyFrom(into))
	require.ErrorContains(t, into.CopyFrom(clone), "the graph has no room for the gradients of the other; make it with NewTrainingGraph")
	require.ErrorContains(t, into.CopyFrom(nil), "the other graph is nil")
	require.ErrorContains(t, into.CopyFrom(w.NewGraph()), "the graph is empty")

	// A clone has the gradients.
	p := w.Leaf(4).SetParam()
	trained := w.NewTrainingGraph(w.Sum(w.Sqr(p)).SetLoss())
	require.NoError(t, trained.Backward())
	again := need.Value(trained.Clone(own, false))(t)
	require.True(t, optest.Found(trained.Grad(p)).Is(optest.Found(again.Grad(p))))
	require.ErrorContains(t, again.Backward(), "the graph has its gradients already")
	own.Close()
	_, err := g.Clone(own, false)
	require.ErrorIs(t, err, ggml.ErrClosed)
}

// Graphs copied to each other concurrently do not deadlock.
func TestGraphsCopiedAtOnce(t *testing.T) {
	w := optest.NewWorkbench(t)
	a, b := w.NewGraph(w.Sqr(w.Leaf(1))), w.NewGraph(w.Neg(w.Leaf(1)))
	done := make(chan error, 2)
	for _, pair := range [][2]*ggml.Graph{{a, b}, {b, a}} {
		go func() {
			var err error
			for range 50 {
				err = pair[0].CopyFrom(pair[1])
			}
			done <- err
		}()
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

func TestGraphTensor(t *testing.T) {
	w := optest.NewWorkbench(t)
	x := w.Leaf(1).SetName("x")
	y := w.Sqr(x).SetName("y")
	g := w.NewGraph(y)
	require.True(t, optest.Found(g.Tensor("x")).Is(x))
	require.True(t, optest.Found(g.Tensor("y")).Is(y))
	require.Same(t, w.Leaves, optest.Found(g.Tensor("x")).Context())
	require.False(t, optest.Finds(g.Tensor("z")))
	require.False(t, optest.Finds(g.Tensor("x\x00")))
	require.False(t, optest.Finds(w.NewGraph().Tensor("x")))
	require.Zero(t, w.NewGraph().Capacity())
	w.Leaves.Close()
	require.False(t, optest.Finds(g.Tensor("x")))
}

func TestGraphSelectErrors(t *testing.T) {
	w := optest.NewWorkbench(t)
	y := w.NewGraph().Select(1, w.Leaf(1))
	require.ErrorContains(t, w.Err(), "Graph.Select(graph of 0 nodes): there is no branch 1: there are 1")
	require.ErrorContains(t, y.Fill(1), "there is no branch 1")
	other := optest.NewWorkbench(t)
	require.NotNil(t, other.NewGraph().Select(0, nil, other.Leaf(1)))
	require.ErrorContains(t, other.Err(), "Graph.Select(nil): the tensor is nil")
}

func TestGraphResetAll(t *testing.T) {
	w := optest.NewWorkbench(t)
	x, m, v := w.Leaf(1, 2).SetParam(), w.Leaf(5, 6), w.Leaf(7, 8)
	params := w.Leaf(0.1, 0.9, 0.99, 1e-8, 0, 10, 100)
	g := w.NewTrainingGraph(w.Sum(w.Sqr(x)).SetLoss())
	require.NoError(t, g.Backward())
	g.Expand(w.OptStepAdamW(ggml.AdamWOperands{Param: x, Grad: optest.Found(g.Grad(x)), M: m, V: v, Settings: params}))
	require.NoError(t, w.Allocator.Allocate(g))
	require.NoError(t, g.Reset())
	require.Equal(t, []float32{5, 6}, optest.Values(t, m))
	require.NoError(t, g.ResetAll())
	require.Equal(t, []float32{0, 0, 0, 0}, append(optest.Values(t, m), optest.Values(t, v)...))
	require.Equal(t, []float32{1, 2}, optest.Values(t, x))
	require.NoError(t, w.Backend.Compute(context.Background(), g))
	require.InDeltaSlice(t, []float32{0.2, 0.4}, optest.Values(t, m), 1e-6) // a tenth of the gradient 2x
	plain := w.NewGraph(w.Neg(w.Leaf(1)))
	require.NoError(t, w.Allocator.Allocate(plain))
	require.ErrorContains(t, plain.ResetAll(), "the graph has no gradients; call Backward first")
}
