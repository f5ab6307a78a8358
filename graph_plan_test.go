package ggml_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A plan computes the same as its graph, any number of times, and fails once it is stale.
func TestGraphPlan(t *testing.T) {
	b := optest.NewCPUBackend(t, 2)
	x := optest.Leaves(t, 1, 64, 64)[0]
	c := ggml.NewContext()
	defer c.Close()
	y := c.MulMat(x, x)
	g := c.NewGraph(y)
	_, err := b.NewPlan(g)
	require.ErrorIs(t, err, ggml.ErrNotAllocated)
	a := optest.NewGraphAllocator(t)
	require.NoError(t, a.Allocate(g))
	p := need.Value(b.NewPlan(g))(t)
	defer p.Close()
	for k := range 3 {
		in := refmath.Normal(optest.RNG(uint64(k)), 1, 64, 64)
		require.NoError(t, ggml.Write(x, in.Float32()))
		require.NoError(t, p.Compute(context.Background()))
		requireNear(t, refmath.MulMat(in, in).Data, optest.Values(t, y), 1e-4, k)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, p.Compute(ctx), context.Canceled)
	pool := need.Value(ggml.NewThreadPool(ggml.ThreadPoolParams{Threads: 2}))(t)
	defer pool.Close()
	require.NoError(t, b.SetThreadPool(pool))
	require.ErrorContains(t, p.Compute(context.Background()), "another thread pool")
	pooled := need.Value(b.NewPlan(g))(t)
	defer pooled.Close()
	pool.Close()
	require.NoError(t, pooled.Compute(context.Background())) // the plan retains the pool
	other := ggml.NewContext()
	defer other.Close()
	require.NoError(t, a.Allocate(other.NewGraph(other.Sqr(x))))
	require.ErrorIs(t, pooled.Compute(context.Background()), ggml.ErrNotAllocated)
	require.NoError(t, a.Allocate(g))
	require.NoError(t, pooled.Compute(context.Background()))
	g.Expand(c.Sqr(y))
	require.NoError(t, a.Allocate(g))
	require.ErrorContains(t, pooled.Compute(context.Background()), "the graph had 1 nodes when it was planned; it now has 2")
	b.Close()
	require.ErrorIs(t, pooled.Compute(context.Background()), ggml.ErrClosed)
	pooled.Close()
	require.ErrorIs(t, pooled.Compute(context.Background()), ggml.ErrClosed)
	if blas, err := ggml.NewBLASBackend(1); err == nil {
		defer blas.Close()
		_, err = blas.NewPlan(g)
		require.Error(t, err)
	}
}
