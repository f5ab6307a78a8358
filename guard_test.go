package ggml_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/nativetest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// A fault that Go does not check reaches an assertion of ggml: the guard turns it into an error,
// and everything remains usable.
func TestGuard(t *testing.T) {
	b := newAddition(t)
	for range 100 {
		c := ggml.NewContext()
		x, y := c.NewTensor(ggml.F32, 4, 2).SetParam(), c.NewTensor(ggml.F32, 4).SetParam()
		g := c.NewTrainingGraph(c.Sum(c.Sub(x, y)).SetLoss())
		err := g.Backward() // ggml has no rule for a repeated operand
		require.ErrorContains(t, err, "ggml: Graph.Backward(graph of ")
		require.ErrorContains(t, err, "an op has no backward for the types or shapes of its operands; train in f32, and give it operands of the shape of its result by Repeat (ggml.c:7178: GGML_ASSERT(!src1_needs_grads || ggml_are_same_shape(src1, cgraph->grads[isrc1])) failed) (at guard_test.go:")
		require.Equal(t, err, c.Err())
		c.Close()
	}
	// A scheduler without room for a graph.
	s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{GraphSize: 1}, b.backend))(t)
	defer s.Close()
	z := b.a
	for range 100 {
		z = b.c.Abs(z)
	}
	err := s.Allocate(b.c.NewGraph(z))
	require.ErrorContains(t, err, "ggml: Scheduler.Allocate(graph of 100 nodes): with its leaves it has more than 1 tensors; make the scheduler with a larger GraphSize (at ")
	b.works(t)
}

// A C++ exception, as plugins for GPUs throw, is an error of the computation, and frames in between
// run their destructors.
func TestExceptions(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("exceptions are caught on Linux")
	}
	for _, c := range []struct {
		what     nativetest.Exception
		says     string
		noMemory bool
	}{
		{nativetest.RuntimeError, "the device is lost", false},
		{nativetest.BadAlloc, "out of memory; close something, or use a smaller model or batch", true},
		{nativetest.Number, "a C++ exception that says nothing", false},
	} {
		t.Run(c.says, func(t *testing.T) {
			b, scheduled := optest.NewCPUBackend(t, 1), optest.NewCPUBackend(t, 1)
			s := optest.NewScheduler(t, scheduled)
			for _, compute := range []func(*ggml.Graph) error{
				func(g *ggml.Graph) error { return b.Compute(context.Background(), g) },
				func(g *ggml.Graph) error {
					require.NoError(t, s.Allocate(g))
					return s.Compute(context.Background(), g)
				},
			} {
				left := nativetest.Left()
				x := optest.Leaves(t, 1, 8)[0]
				ctx := ggml.NewContext()
				defer ctx.Close()
				err := compute(ctx.NewGraph(nativetest.Throw(ctx, x, c.what)))
				require.ErrorIs(t, err, ggml.ErrBroken)
				require.ErrorContains(t, err, c.says)
				require.Equal(t, c.noMemory, errors.Is(err, ggml.ErrOutOfMemory))
				require.Equal(t, left+1, nativetest.Left())
			}
		})
	}
	newAddition(t).works(t)
}
