package ggml_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
)

// A copy has the tensors and the data, computes independently, and outlives the original; all its
// results can be read.
func TestGraphCopy(t *testing.T) {
	for _, d := range allDevices(t) {
		t.Run(d.Name(), func(t *testing.T) {
			b := need.Value(d.NewBackend())(t)
			defer b.Close()
			g, y := network(t)
			copied, buffer, err := g.CopyTo(b)
			require.NoError(t, err)
			defer buffer.Close()
			defer copied.Context().Close()
			require.Equal(t, g.NumNodes(), copied.NumNodes())
			originals := slices.Collect(g.Nodes())
			i := 0
			for n := range copied.Nodes() {
				require.False(t, n.Is(originals[i]))
				require.Equal(t, originals[i].Shape(), n.Shape())
				require.Equal(t, originals[i].Op(), n.Op())
				i++
			}
			require.NoError(t, optest.NewCPUBackend(t, 2).Compute(context.Background(), g))
			want := need.Value(ggml.Read[float32](y))(t)
			y.Context().Close()
			if d.Type() != ggml.CPU {
				b = optest.NewCPUBackend(t, 1) // its memory is the system's
			}
			require.NoError(t, b.Compute(context.Background(), copied))
			got := need.Value(ggml.Read[float32](optest.Found(copied.Context().Tensor("y"))))(t)
			require.InDeltaSlice(t, want, got, 1e-6)
			for n := range copied.Nodes() {
				_, err := ggml.Read[float32](n)
				require.NoError(t, err)
			}
			buffer.Close()
			require.ErrorIs(t, b.Compute(context.Background(), copied), ggml.ErrNotAllocated)
			copied.Context().Close()
			require.ErrorIs(t, b.Compute(context.Background(), copied), ggml.ErrClosed)
		})
	}
}

func TestGraphCopyMisuse(t *testing.T) {
	g, _ := steps(t, 1)
	b := optest.NewCPUBackend(t, 1)
	_, _, err := g.CopyTo(b)
	require.ErrorIs(t, err, ggml.ErrNotAllocated)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	_, _, err = g.CopyTo(nil)
	require.ErrorContains(t, err, "the backend is nil")
	_, _, err = (*ggml.Graph)(nil).CopyTo(b)
	require.ErrorIs(t, err, ggml.ErrZeroValue)
	b.Close()
	_, _, err = g.CopyTo(b)
	require.ErrorIs(t, err, ggml.ErrClosed)
}

// A copy calls the functions of the original, also concurrently.
func TestGraphCopyCustom(t *testing.T) {
	x := optest.Leaves(t, 1, 4)[0]
	c := ggml.NewContext()
	fail := errors.New("not here")
	bad := false
	y := c.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		if bad {
			return fail
		}
		return sum(w, dst, src...)
	}, 0, x).SetName("y")
	g := c.NewGraph(y)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	b := optest.NewCPUBackend(t, 2)
	copied, buffer, err := g.CopyTo(b)
	require.NoError(t, err)
	defer buffer.Close()
	defer copied.Context().Close()
	var wg testutil.Goroutines
	for _, k := range []struct {
		b *ggml.Backend
		g *ggml.Graph
	}{{b, copied}, {optest.NewCPUBackend(t, 2), g}} {
		wg.Go(func() {
			for range 20 {
				if err := k.b.Compute(context.Background(), k.g); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := need.Value(ggml.Read[float32](optest.Found(copied.Context().Tensor("y"))))(t)
	require.Equal(t, []float32{1, 2, 3, 4}, got)
	bad = true
	require.ErrorIs(t, b.Compute(context.Background(), copied), fail)
	require.ErrorIs(t, g.CompareBackends(context.Background(), ggml.CompareOptions{First: b, Second: optest.NewCPUBackend(t, 2), Compare: func(int, *ggml.Tensor, *ggml.Tensor) error { return nil }}), fail)
	c.Close()
	require.ErrorIs(t, b.Compute(context.Background(), copied), ggml.ErrClosed)
}

// equal requires approximately equal values.
func equal(node int, a, b *ggml.Tensor) error {
	x, err := ggml.Read[float32](a)
	y, err2 := ggml.Read[float32](b)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	for i := range x {
		if d := x[i] - y[i]; d > 1e-4 || d < -1e-4 {
			return fmt.Errorf("element %d is %v and %v", i, x[i], y[i])
		}
	}
	return nil
}

// The reference code and the optimised code give approximately the same results, node by node.
func TestCompareBackends(t *testing.T) {
	g, y := network(t)
	a, b := optest.NewCPUBackend(t, 2), optest.NewCPUBackend(t, 1)
	require.NoError(t, b.SetUseRef(true))
	ctx := context.Background()
	var seen []int
	var kept *ggml.Tensor
	require.NoError(t, g.CompareBackends(ctx, ggml.CompareOptions{First: a, Second: b, Compare: func(i int, x, y *ggml.Tensor) error {
		seen, kept = append(seen, i), y
		return equal(i, x, y)
	}}))
	require.Equal(t, []int{0, 1, 3, 4, 5, 6}, seen) // node 2 is a view
	_, err := ggml.Read[float32](kept)
	require.ErrorIs(t, err, ggml.ErrClosed)

	seen = nil
	require.NoError(t, g.CompareBackends(ctx, ggml.CompareOptions{First: a, Second: b, Compare: func(i int, x, y *ggml.Tensor) error {
		seen = append(seen, i)
		return equal(i, x, y)
	}}, y))
	require.Equal(t, []int{6}, seen)

	bad := errors.New("different")
	calls := 0
	for _, f := range []func(int, *ggml.Tensor, *ggml.Tensor) error{
		func(int, *ggml.Tensor, *ggml.Tensor) error { calls++; return bad },
		func(int, *ggml.Tensor, *ggml.Tensor) error { calls++; panic(bad) },
	} {
		err := g.CompareBackends(ctx, ggml.CompareOptions{First: a, Second: b, Compare: f})
		require.ErrorIs(t, err, bad)
		require.ErrorContains(t, err, "ggml: mul_mat(mul_mat() f32[32, 32]): node 0: ")
	}
	require.Equal(t, 2, calls)
	stop := errors.New("stop")
	cancelled, cancel := context.WithCancelCause(ctx)
	require.Equal(t, stop, g.CompareBackends(cancelled, ggml.CompareOptions{First: a, Second: b, Compare: func(int, *ggml.Tensor, *ggml.Tensor) error { cancel(stop); return nil }}))
	require.NoError(t, a.Compute(ctx, g))
}

func TestCompareBackendsMisuse(t *testing.T) {
	g, _ := network(t)
	a, b := optest.NewCPUBackend(t, 1), optest.NewCPUBackend(t, 1)
	ctx := context.Background()
	compare := func(a, b *ggml.Backend, nodes ...*ggml.Tensor) error {
		return g.CompareBackends(ctx, ggml.CompareOptions{First: a, Second: b, Compare: equal}, nodes...)
	}
	const wants = "give two backends and a function"
	require.ErrorContains(t, compare(nil, b), wants)
	require.ErrorContains(t, compare(a, nil), wants)
	require.ErrorContains(t, compare(a, a), wants)
	require.ErrorContains(t, g.CompareBackends(ctx, ggml.CompareOptions{First: a, Second: b}), wants)
	require.ErrorContains(t, compare(a, b, optest.Leaves(t, 1, 4)...), "the tensor is not a node of the graph")
	require.ErrorContains(t, compare(a, b, nil), "the tensor is nil")
	var missing context.Context
	require.ErrorContains(t, g.CompareBackends(missing, ggml.CompareOptions{First: a, Second: b, Compare: equal}), "the context.Context is nil")
	b.Close()
	require.ErrorIs(t, compare(a, b), ggml.ErrClosed)
	unallocated, _ := steps(t, 2)
	g = unallocated
	require.ErrorIs(t, compare(a, optest.NewCPUBackend(t, 1)), ggml.ErrNotAllocated)
	g = nil
	require.ErrorContains(t, compare(a, optest.NewCPUBackend(t, 1)), "the graph is nil")
}
