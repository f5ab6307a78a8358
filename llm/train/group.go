package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/parallel"
)

// alone is a group of one process.
type alone struct{}

func (alone) Rank() int                                  { return 0 }
func (alone) Size() int                                  { return 1 }
func (alone) AllReduce(context.Context, []float64) error { return nil }
func (alone) AllGather(_ context.Context, own []byte) ([][]byte, error) {
	return [][]byte{own}, nil
}
func (alone) AllReduceGrads(context.Context, []*ggml.Tensor) func() error {
	return func() error { return nil }
}

func groupOf(g parallel.Group) parallel.Group {
	if g == nil {
		return alone{}
	}
	return g
}

// agree sums numbers over all ranks of a group. If one rank passes an error, all ranks return one. A
// rank that fails must call it too, so that the others do not wait for it.
func agree(ctx context.Context, g parallel.Group, err error, sums []float64) error {
	if g.Size() == 1 {
		return err
	}
	failed, stopped := 0.0, 0.0
	switch {
	case err != nil && ctx.Err() != nil:
		stopped = 1
	case err != nil:
		failed = 1
	}
	if err != nil {
		ctx = context.WithoutCancel(ctx)
	}
	all := append([]float64{failed, stopped}, sums...)
	sumErr := g.AllReduce(ctx, all)
	switch {
	case err != nil:
		return err
	case sumErr != nil:
		return groupError(sumErr)
	case all[0] > 0:
		return &SharedError{errors.New("another process of the group has failed"), true}
	case all[1] > 0:
		return &SharedError{fmt.Errorf("another process of the group was stopped: %w", ErrStopped), true}
	}
	copy(sums, all[2:])
	return nil
}

// checkGroup validates the rank of a process.
func checkGroup(g parallel.Group) error {
	if rank, size := g.Rank(), g.Size(); rank < 0 || rank >= size {
		return fmt.Errorf("a group of %d processes has no rank %d; ranks count from 0", size, rank)
	}
	return nil
}

// A SharedError is an error that all ranks of a group return together, so it need be reported only
// once.
type SharedError struct {
	Err       error
	Elsewhere bool // another rank has the original error
}

func (e *SharedError) Error() string { return fmt.Sprint(e.Unwrap()) }

func (e *SharedError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// groupError returns the error of a group call. If the call was cancelled on another rank, the run
// stops here too.
func groupError(err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("a process of the group was stopped: %w", errors.Join(ErrStopped, err))
	}
	return fmt.Errorf("the group: %w", err)
}
