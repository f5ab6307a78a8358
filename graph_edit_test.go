package ggml_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// A workbench has leaves, a context for ops, and a backend with an allocator.
type workbench struct {
	*ggml.Context
	t       *testing.T
	backend *ggml.Backend
	alloc   *ggml.GraphAllocator
	leaves  *ggml.Context
}

func newWorkbench(t *testing.T) *workbench {
	w := &workbench{Context: ggml.NewContext(), t: t, leaves: ggml.NewContext()}
	var err error
	w.backend, err = ggml.NewCPUBackend(2)
	require.NoError(t, err)
	w.alloc, err = ggml.NewGraphAllocator(ggml.CPUBufferType())
	require.NoError(t, err)
	t.Cleanup(func() {
		w.Close()
		w.leaves.Close()
		w.alloc.Close()
		w.backend.Close()
	})
	return w
}

// leaf makes an F32 vector with values.
func (w *workbench) leaf(values ...float32) *ggml.Tensor {
	x := w.leaves.NewTensor(ggml.F32, int64(len(values)))
	buffers, err := w.leaves.Allocate(ggml.CPUBufferType())
	require.NoError(w.t, err)
	w.t.Cleanup(func() { buffers.Close() })
	require.NoError(w.t, ggml.Write(x, values))
	return x
}

func (w *workbench) compute(g *ggml.Graph) {
	w.t.Helper()
	require.NoError(w.t, w.alloc.Alloc(g))
	require.NoError(w.t, w.backend.Compute(context.Background(), g))
}

func names(g *ggml.Graph) []string {
	var list []string
	for t := range g.Nodes() {
		list = append(list, t.Name())
	}
	return list
}

func TestGraphSelect(t *testing.T) {
	w := newWorkbench(t)
	x := w.leaf(1, 2, 3)
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
		require.Equal(t, []string{"first", "second", "third"}, names(g)[1:4]) // whatever is chosen
		w.compute(g)
		require.Equal(t, [][]float32{{2, 8, 18}, {-1, -2, -3}, {2, 4, 6}}[chosen], numbers(t, y))
		require.Equal(t, [][]float32{{28}, {-6}, {12}}[chosen], numbers(t, z))
		for i, b := range branches {
			require.Equal(t, i == chosen, b.Computed())
			if i != chosen {
				_, err := ggml.Read[float32](b)
				require.ErrorContains(t, err, "no graph computes this tensor; add it by Expand, or choose its branch by Select")
			}
		}
	}
	require.False(t, x.Computed())
}

// The indices of a branch that is not chosen are not looked at.
func TestGraphSelectSkipsIndices(t *testing.T) {
	w := newWorkbench(t)
	table, ids := w.leaves.NewTensor(ggml.F32, 2, 3), w.leaves.NewTensor(ggml.I32, 2)
	buffers, err := w.leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	require.NoError(t, ggml.Write(table, []float32{1, 2, 3, 4, 5, 6}))
	require.NoError(t, ggml.Write(ids, []int32{-5, 1 << 30}))
	g := w.NewGraph()
	y := g.Select(1, w.GetRows(table, ids), w.View(table, []int64{2, 2}, nil, 8))
	z := w.Neg(y).SetOutput()
	g.Expand(z)
	w.compute(g)
	require.Equal(t, []float32{-3, -4, -5, -6}, numbers(t, z))
	g.Expand(w.GetRows(table, ids).SetOutput())
	require.NoError(t, w.alloc.Alloc(g))
	require.ErrorContains(t, w.backend.Compute(context.Background(), g), "row index -5 is out of range: there are 3 rows")
}

func TestGraphOrder(t *testing.T) {
	w := newWorkbench(t)
	x := w.leaf(2)
	a, b := w.Sqr(x).SetName("a"), w.Neg(x).SetName("b")
	c := w.Add(a, x).SetName("c")
	g := w.NewGraph().Order(b, c)
	require.Equal(t, []string{"b", "a", "c"}, names(g))
	require.False(t, a.Computed() || b.Computed() || c.Computed())
	g.Expand(c.SetOutput())
	require.Equal(t, []string{"b", "a", "c"}, names(g))
	require.True(t, a.Computed() && c.Computed())
	require.False(t, b.Computed())
	w.compute(g)
	require.Equal(t, []float32{6}, numbers(t, c))

	// A chain that is too long for the library's recursion.
	const depth = 30000
	y := x
	for range depth {
		y = w.ScaleBias(y, 1, 1)
	}
	long := w.NewGraph().Order(y)
	require.Equal(t, depth, long.NumNodes())
	require.False(t, y.Computed())
	long.Expand(y.SetOutput())
	require.Equal(t, depth, long.NumNodes())
	w.compute(long)
	require.Equal(t, []float32{depth + 2}, numbers(t, y))
}

func TestGraphAddNode(t *testing.T) {
	w := newWorkbench(t)
	x := w.leaf(3)
	a, b := w.Sqr(x).SetName("a"), w.Neg(x).SetName("b").SetOutput()
	g := w.NewGraph(a).AddNode(b)
	require.Equal(t, []string{"a", "b"}, names(g))
	c := w.Mul(a, b).SetName("c").SetOutput()
	g.AddNode(c)
	w.compute(g)
	require.Equal(t, []float32{-27}, numbers(t, c))
	g.AddNode(a)
	require.ErrorContains(t, w.Err(), "graph_add_node(a f32[1]): the graph has this tensor already")

	other := newWorkbench(t)
	other.NewGraph().AddNode(other.Sqr(other.Neg(x).SetName("n")))
	require.ErrorContains(t, other.Err(), "graph_add_node(sqr() f32[1]): operand 0 is not in the graph; call Expand")
}

func TestGraphClear(t *testing.T) {
	w := newWorkbench(t)
	x := w.leaf(1, 2).SetParam()
	g := w.NewTrainingGraph(w.Sum(w.Sqr(x)).SetLoss())
	require.NoError(t, g.Backward())
	require.NotNil(t, g.Grad(x))
	room := g.Capacity()
	require.GreaterOrEqual(t, room, g.NumNodes())
	g.Clear()
	require.Zero(t, g.NumNodes())
	require.Equal(t, room, g.Capacity())
	require.Nil(t, g.Grad(x))
	require.Nil(t, g.GradAcc(x))
	require.Empty(t, slices.Collect(g.Leaves()))

	loss := w.Sum(w.Scale(x, 3)).SetLoss()
	g.Expand(loss)
	require.Nil(t, g.Grad(x))
	require.NoError(t, g.Backward())
	g.Expand(g.Grad(x).SetOutput())
	require.NoError(t, w.alloc.Alloc(g))
	require.NoError(t, g.Reset())
	require.NoError(t, w.backend.Compute(context.Background(), g))
	require.Equal(t, []float32{3, 3}, numbers(t, g.Grad(x)))
	require.NotNil(t, g.GradAcc(loss))
}

func TestGraphClone(t *testing.T) {
	w := newWorkbench(t)
	x := w.leaf(5)
	y := w.Sqr(x).SetName("y").SetOutput()
	g := w.NewGraph(y)
	own := ggml.NewContext()
	defer own.Close()
	clone, err := g.Clone(own, true)
	require.NoError(t, err)
	require.Equal(t, names(g), names(clone))
	z := own.Neg(y).SetName("z").SetOutput()
	clone.Expand(z)
	require.Equal(t, []string{"y"}, names(g))
	require.Equal(t, []string{"y", "z"}, names(clone))
	w.compute(clone)
	require.Equal(t, []float32{-25}, numbers(t, z))

	// From one graph to another; gradients need room.
	into := w.NewGraph(w.Sqr(w.leaf(1)).SetName("old"))
	require.NoError(t, into.CopyFrom(g))
	require.Equal(t, []string{"y"}, names(into))
	require.NoError(t, into.CopyFrom(into))
	require.ErrorContains(t, into.CopyFrom(clone), "the graph has no room for the gradients of the other; make it by NewTrainingGraph")
	require.ErrorContains(t, into.CopyFrom(nil), "the other graph is nil")
	require.ErrorContains(t, into.CopyFrom(w.NewGraph()), "the graph is empty")

	// A clone has the gradients.
	p := w.leaf(4).SetParam()
	trained := w.NewTrainingGraph(w.Sum(w.Sqr(p)).SetLoss())
	require.NoError(t, trained.Backward())
	again, err := trained.Clone(own, false)
	require.NoError(t, err)
	require.True(t, trained.Grad(p).Is(again.Grad(p)))
	require.ErrorContains(t, again.Backward(), "the graph has its gradients already")
	own.Close()
	_, err = g.Clone(own, false)
	require.ErrorIs(t, err, ggml.ErrClosed)
}

// Graphs that are copied to each other at once do not wait for each other.
func TestGraphsCopiedAtOnce(t *testing.T) {
	w := newWorkbench(t)
	a, b := w.NewGraph(w.Sqr(w.leaf(1))), w.NewGraph(w.Neg(w.leaf(1)))
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

func TestGraphLookup(t *testing.T) {
	w := newWorkbench(t)
	x := w.leaf(1).SetName("x")
	y := w.Sqr(x).SetName("y")
	g := w.NewGraph(y)
	require.True(t, g.Lookup("x").Is(x))
	require.True(t, g.Lookup("y").Is(y))
	require.Same(t, w.leaves, g.Lookup("x").Context())
	require.Nil(t, g.Lookup("z"))
	require.Nil(t, g.Lookup("x\x00"))
	require.Nil(t, w.NewGraph().Lookup("x"))
	require.Zero(t, w.NewGraph().Capacity())
	w.leaves.Close()
	require.Nil(t, g.Lookup("x"))
}

func TestGraphSelectErrors(t *testing.T) {
	w := newWorkbench(t)
	y := w.NewGraph().Select(1, w.leaf(1))
	require.ErrorContains(t, w.Err(), "build_forward_select(graph of 0 nodes): there is no branch 1: there are 1")
	require.ErrorContains(t, y.SetFloat32(1), "there is no branch 1")
	other := newWorkbench(t)
	require.NotNil(t, other.NewGraph().Select(0, nil, other.leaf(1)))
	require.ErrorContains(t, other.Err(), "build_forward_select(nil): the tensor is nil")
}

func TestGraphResetAll(t *testing.T) {
	w := newWorkbench(t)
	x, m, v := w.leaf(1, 2).SetParam(), w.leaf(5, 6), w.leaf(7, 8)
	params := w.leaf(0.1, 0.9, 0.99, 1e-8, 0, 10, 100)
	g := w.NewTrainingGraph(w.Sum(w.Sqr(x)).SetLoss())
	require.NoError(t, g.Backward())
	g.Expand(w.OptStepAdamW(x, g.Grad(x), m, v, params))
	require.NoError(t, w.alloc.Alloc(g))
	require.NoError(t, g.Reset())
	require.Equal(t, []float32{5, 6}, numbers(t, m))
	require.NoError(t, g.ResetAll())
	require.Equal(t, []float32{0, 0, 0, 0}, append(numbers(t, m), numbers(t, v)...))
	require.Equal(t, []float32{1, 2}, numbers(t, x))
	require.NoError(t, w.backend.Compute(context.Background(), g))
	require.InDeltaSlice(t, []float32{0.2, 0.4}, numbers(t, m), 1e-6) // a tenth of the gradient 2x
	plain := w.NewGraph(w.Neg(w.leaf(1)))
	require.NoError(t, w.alloc.Alloc(plain))
	require.ErrorContains(t, plain.ResetAll(), "the graph has no gradients; call Backward first")
}
