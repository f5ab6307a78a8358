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

// A cancelled compute stops before the next node, returns the cause, and leaves the backend usable.
func TestCancel(t *testing.T) {
	const nodes = 2000
	backend, sched := optest.NewCPUBackend(t, 1), optest.NewScheduler(t, optest.NewCPUBackend(t, 1))
	alloc := optest.NewGraphAllocator(t)
	kinds := map[string]struct {
		alloc   func(g *ggml.Graph) error
		compute func(ctx context.Context, g *ggml.Graph) error
	}{
		"backend":   {alloc.Allocate, backend.Compute},
		"scheduler": {sched.Allocate, sched.Compute},
	}
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			stop := errors.New("that is enough")
			var cancel context.CancelCauseFunc // of the computation to cancel
			run := 0
			g, y := chain(t, nodes, 32, func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error {
				if run++; cancel != nil && run >= nodes/2 {
					cancel(stop)
					time.Sleep(time.Millisecond) // it need not notice at once, but before all nodes, which take seconds
				}
				return nil
			})
			require.NoError(t, k.alloc(g))
			require.NoError(t, k.compute(context.Background(), g))
			require.Equal(t, nodes, run)

			var ctx context.Context
			ctx, cancel = context.WithCancelCause(context.Background())
			run = 0
			require.Equal(t, stop, k.compute(ctx, g))
			require.Less(t, run, nodes)
			require.GreaterOrEqual(t, run, nodes/2)
			cancel = nil

			late, done := context.WithDeadline(context.Background(), time.Now())
			defer done()
			require.ErrorIs(t, k.compute(late, g), context.DeadlineExceeded)
			require.Equal(t, stop, k.compute(cancelledWith(stop), g))

			require.NoError(t, k.compute(context.Background(), g))
			got := need.Value(ggml.Read[float32](y))(t)
			require.Equal(t, float32(1), got[0])
			require.Equal(t, float32(1), got[len(got)-1])
		})
	}
}

func cancelledWith(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}
