package ggml_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/optest"
)

// A cancelled compute stops before the next node, gives the cause, and leaves
// the backend as it was.
func TestCancel(t *testing.T) {
	nodes := 2000
	if testing.Short() {
		nodes = 500
	}
	backend, sched := optest.NewCPUBackend(t, 1), optest.NewScheduler(t, optest.NewCPUBackend(t, 1))
	alloc := optest.NewGraphAllocator(t)
	kinds := map[string]struct {
		alloc   func(g *ggml.Graph) error
		compute func(ctx context.Context, g *ggml.Graph) error
	}{
		"backend":   {alloc.Alloc, backend.Compute},
		"scheduler": {sched.Alloc, sched.Compute},
	}
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			g, y := chain(t, nodes, 128)
			require.NoError(t, k.alloc(g))
			start := time.Now()
			require.NoError(t, k.compute(context.Background(), g))
			whole := time.Since(start)

			stop := errors.New("that is enough")
			var cancelled time.Time
			for attempt := range 10 { // the timer may be late on a busy machine
				ctx, cancel := context.WithCancelCause(context.Background())
				fired := make(chan struct{})
				time.AfterFunc(whole/time.Duration(10+10*attempt), func() {
					cancelled = time.Now()
					cancel(stop)
					close(fired)
				})
				err := k.compute(ctx, g)
				<-fired
				if err != nil {
					require.Equal(t, stop, err)
					break
				}
				require.Less(t, attempt, 9, "the compute was never cancelled")
			}
			// A node takes a small part of it; the rest is for a busy machine.
			require.Less(t, time.Since(cancelled), whole/4+50*time.Millisecond)

			late, done := context.WithDeadline(context.Background(), time.Now())
			defer done()
			require.ErrorIs(t, k.compute(late, g), context.DeadlineExceeded)
			require.Equal(t, stop, k.compute(cancelledWith(stop), g))

			require.NoError(t, k.compute(context.Background(), g))
			got, err := ggml.Read[float32](y)
			require.NoError(t, err)
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
