package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// Sizes for which ggml would assert or run out of memory are refused before, with the remedy.
func TestSchedulerLimits(t *testing.T) {
	b := optest.NewCPUBackend(t, 1)
	tooMany := make([]*ggml.Backend, 100)
	for i := range tooMany {
		tooMany[i] = b
	}
	_, err := ggml.NewScheduler(ggml.SchedulerOptions{}, tooMany...)
	require.EqualError(t, err, "ggml: scheduler: there are 100 backends; ggml schedules on at most 16: leave some out, or combine several devices with NewMetaDevice")
	_, err = ggml.NewOptimizer(ggml.OptimizerOptions{}, tooMany...)
	require.ErrorContains(t, err, "at most 16")
	_, err = ggml.NewScheduler(ggml.SchedulerOptions{GraphSize: 1 << 40}, b)
	require.EqualError(t, err, "ggml: scheduler: the graph size is 1099511627776; the limit is 4194304")

	// Some machines have the memory for these.
	const size = 1 << 22
	for name, open := range map[string]func() (interface{ Close() error }, error){
		"scheduler": func() (interface{ Close() error }, error) {
			return ggml.NewScheduler(ggml.SchedulerOptions{GraphSize: size}, b)
		},
		"optimizer": func() (interface{ Close() error }, error) {
			return ggml.NewOptimizer(ggml.OptimizerOptions{GraphSize: size}, b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open()
			if err == nil { // if it fits, it works
				defer s.Close()
				c := ggml.NewContext()
				defer c.Close()
				if scheduler, ok := s.(*ggml.Scheduler); ok {
					require.NoError(t, scheduler.Allocate(c.NewGraph(c.Neg(c.NewTensor(ggml.F32, 2)))))
				}
				return
			}
			require.ErrorIs(t, err, ggml.ErrOutOfMemory)
			require.ErrorContains(t, err, "a GraphSize of 4194304 takes ")
			require.ErrorContains(t, err, "use one no larger than the nodes and leaves of the largest graph")
		})
	}

	// The largest number of backends works.
	s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, tooMany[:16]...))(t)
	defer s.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2)
	require.NoError(t, s.Allocate(c.NewGraph(c.Neg(x))))
}

// Nothing reads the memory of a closed backend.
func TestSchedulerOfClosedBackend(t *testing.T) {
	b := optest.NewCPUBackend(t, 1)
	b.Close()
	_, err := ggml.NewScheduler(ggml.SchedulerOptions{}, b)
	require.ErrorIs(t, err, ggml.ErrClosed)
	_, err = ggml.NewOptimizer(ggml.OptimizerOptions{}, b)
	require.ErrorIs(t, err, ggml.ErrClosed)
}
