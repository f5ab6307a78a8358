package ggml_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// plusOne returns a graph of n nodes, each of which adds 1 to a tensor in place.
func plusOne(t *testing.T, n int) (*ggml.Graph, *ggml.Tensor) {
	t.Helper()
	w := optest.NewWorkbench(t)
	x, one := w.Leaf(0), w.Leaf(1)
	y := x
	for range n {
		y = w.AddInPlace(y, one)
	}
	return w.NewGraph(y), x
}

func valueOf(t *testing.T, x *ggml.Tensor) float32 {
	t.Helper()
	got := need.Value(ggml.Read[float32](x))(t)
	return got[0]
}

// The second graph sees the results of the first. If cancelled during the first, the second does
// not begin; if cancelled during the second, it is computed to its end.
func TestComputeThen(t *testing.T) {
	b := optest.NewCPUBackend(t, 2)
	first, x := plusOne(t, 3)
	w := optest.NewWorkbench(t)
	sum := w.Leaf(100)
	then := w.NewGraph(w.AddInPlace(sum, x))
	require.NoError(t, b.ComputeThen(context.Background(), first, then))
	require.Equal(t, []float32{3, 103}, []float32{valueOf(t, x), valueOf(t, sum)})

	stop := errors.New("that is enough")
	require.Equal(t, stop, b.ComputeThen(cancelledWith(stop), first, then))
	require.Equal(t, []float32{3, 103}, []float32{valueOf(t, x), valueOf(t, sum)})

	var cancel context.CancelCauseFunc
	slow, _ := chain(t, 2000, 32, func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error {
		cancel(stop)
		time.Sleep(time.Millisecond) // it need not notice at once, but before all nodes, which take seconds
		return nil
	})
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(slow))
	ctx, end := context.WithCancelCause(context.Background())
	cancel = end
	require.Equal(t, stop, b.ComputeThen(ctx, slow, first))
	require.Equal(t, float32(3), valueOf(t, x))
	require.ErrorContains(t, b.ComputeThen(context.Background(), first, slow), "the second graph has nodes that Go functions compute; compute it alone")
	require.ErrorContains(t, b.ComputeThen(context.Background(), first, first), "both graphs are the same; compute it twice")

	const nodes = 100_000
	long, y := plusOne(t, nodes)
	for done := float32(0); ; {
		ctx, cancel := context.WithCancelCause(context.Background())
		timer := time.AfterFunc(time.Millisecond, func() { cancel(stop) })
		err := b.ComputeThen(ctx, first, long)
		timer.Stop()
		if err == nil {
			done += nodes
		}
		require.Equal(t, done, valueOf(t, y))
		if err == nil && ctx.Err() != nil {
			break // it was cancelled meanwhile
		}
		require.Less(t, done, float32(1<<24), "the computation is never cancelled")
	}
	require.NoError(t, b.Compute(context.Background(), first))
}

func TestComputeThenOfNothing(t *testing.T) {
	b := optest.NewCPUBackend(t, 1)
	g, _ := plusOne(t, 1)
	require.ErrorContains(t, b.ComputeThen(context.Background(), g, nil), "the graph is nil")
	require.ErrorContains(t, b.ComputeThen(context.Background(), nil, g), "the graph is nil")
	require.ErrorContains(t, b.ComputeThen(context.Background(), nil, nil), "the graph is nil")
	require.NoError(t, b.Close())
	other, _ := plusOne(t, 1)
	require.ErrorIs(t, b.ComputeThen(context.Background(), g, other), ggml.ErrClosed)
}
