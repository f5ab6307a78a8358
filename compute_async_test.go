package ggml_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// All objects of an asynchronous computation may be closed right after it has begun: they are freed
// when the device is done.
func TestCloseDuringAsync(t *testing.T) {
	d := remote(t, optest.StartRPCServer(t))
	before := ggml.OpenObjects() // tests share devices
	for round := range 20 {
		b := need.Value(d.NewBackend())(t)
		c := ggml.NewContext()
		x, out := placed(t, d, 64, 64), placed(t, d, 64, 64)
		require.NoError(t, ggml.Write(x, refmath.Normal(optest.RNG(1), 0.01, 64, 64).Float32()))
		y := x
		for range 50 {
			y = c.MulMat(x, y)
		}
		g := c.NewGraph(c.Copy(y, out))
		a := need.Value(ggml.NewGraphAllocator(d.BufferType()))(t)
		require.NoError(t, a.Allocate(g))
		require.NoError(t, b.ComputeAsync(context.Background(), g))
		require.NoError(t, c.Close())
		require.NoError(t, a.Close())
		closePlaced(x)
		if round%2 == 0 {
			require.NoError(t, b.Synchronize()) // frees all of them
		}
		require.NoError(t, b.Close())
		got := need.Value(ggml.Read[float32](out))(t)
		require.NotZero(t, len(got))
		closePlaced(out)
	}
	require.Equal(t, before, ggml.OpenObjects())
}

// The next graph gets the memory only after the computation of the last one, so results requested
// in order are right.
func TestAllocateAfterAsync(t *testing.T) {
	d := remote(t, optest.StartRPCServer(t))
	b := need.Value(d.NewBackend())(t)
	defer b.Close()
	cpu := optest.NewCPUBackend(t, 1)
	allocator := need.Value(ggml.NewGraphAllocator(d.BufferType()))(t)
	defer allocator.Close()
	sched := optest.NewScheduler(t, b, cpu)
	x := placed(t, d, 256)
	for k := range 10 {
		c := ggml.NewContext()
		input := c.NewTensor(ggml.F32, 256).SetInput()
		y := c.Add(c.Scale(x, float32(k)), input)
		g := c.NewGraph(y)
		var got [256]float32
		ones := refmath.Uniform(optest.RNG(1), 1, 1, 256).Float32()
		require.NoError(t, b.WriteAsync(x, bytesOf(ones), 0))
		if k%2 == 0 {
			require.NoError(t, allocator.Allocate(g))
			require.NoError(t, b.WriteAsync(input, bytesOf(ones), 0))
			require.NoError(t, b.ComputeAsync(context.Background(), g))
		} else {
			require.NoError(t, sched.SetTensorBackend(y, b))
			require.NoError(t, sched.Allocate(g))
			require.NoError(t, ggml.Write(input, ones))
			require.NoError(t, sched.ComputeAsync(context.Background(), g))
		}
		require.NoError(t, b.ReadAsync(y, bytesOf(got[:]), 0))
		require.NoError(t, b.Synchronize())
		for i := range got {
			require.Equal(t, float32(k)+1, got[i], "element %d in round %d", i, k)
		}
		if k%2 == 0 {
			require.NoError(t, b.ComputeAsync(context.Background(), g)) // nobody waits for it
		} else {
			require.NoError(t, sched.ComputeAsync(context.Background(), g))
			require.ErrorContains(t, b.ComputeAsync(context.Background(), g), "is in memory that "+d.Name()+" cannot access")
		}
		require.NoError(t, sched.Reset())
		c.Close()
	}
}

// Goroutines that compute, copy and allocate on one device, synchronously and asynchronously, do
// not deadlock.
func TestAsyncFromGoroutines(t *testing.T) {
	d := remote(t, optest.StartRPCServer(t))
	shared, err := d.NewBackend()
	require.NoError(t, err)
	defer shared.Close()
	var wg sync.WaitGroup
	for k := range 4 {
		own := shared
		if k%2 == 1 {
			own, err = d.NewBackend() // ggml's graph cache of a device is not safe for concurrent use
			require.NoError(t, err)
			defer own.Close()
		}
		a := need.Value(ggml.NewGraphAllocator(d.BufferType()))(t)
		defer a.Close()
		x := placed(t, d, 32)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for round := range 30 {
				c := ggml.NewContext()
				y := c.Scale(x, float32(k))
				g := c.NewGraph(y)
				var got [32]float32
				in := refmath.Uniform(optest.RNG(1), float64(round), float64(round), 32).Float32()
				err := errors.Join(
					a.Allocate(g),
					own.WriteAsync(x, bytesOf(in), 0),
					own.ComputeAsync(context.Background(), g),
					own.ReadAsync(y, bytesOf(got[:]), 0),
					own.Synchronize(),
				)
				if err != nil || got[31] != float32(k*round) {
					t.Errorf("goroutine %d, round %d: %v, %v", k, round, got[31], err)
				}
				c.Close()
			}
		}()
	}
	wg.Wait()
}

func TestAsyncOnCPU(t *testing.T) {
	x := optest.Leaves(t, 1, 8)[0]
	c := ggml.NewContext()
	defer c.Close()
	y := c.Sqr(x)
	g := c.NewGraph(y)
	b := optest.NewCPUBackend(t, 1)
	require.ErrorIs(t, b.ComputeAsync(context.Background(), g), ggml.ErrNotAllocated)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	require.NoError(t, b.ComputeAsync(context.Background(), g))
	require.NoError(t, b.Synchronize())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, b.ComputeAsync(ctx, g), context.Canceled)
	require.ErrorContains(t, b.ComputeAsync(context.Background(), nil), "the graph is nil")
	s := optest.NewScheduler(t, b)
	require.ErrorContains(t, s.ComputeAsync(context.Background(), g), "call Allocate first")
	require.ErrorContains(t, s.ComputeAsync(context.Background(), nil), "the graph is nil")
	b.Close()
	require.ErrorIs(t, b.ComputeAsync(context.Background(), g), ggml.ErrClosed)
	s.Close()
	require.ErrorIs(t, s.Synchronize(), ggml.ErrClosed)
}
