package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/goggml/ggml"
)

// A Group is a process's membership in a group of processes, its ranks, that train one model
// together. Each has a trainer with the same options and data, computes its share of the rows of
// each step and of held-out data, and ends up with the same parameters, history and evaluations,
// which equal a single process's but for rounding. [LocalGroup] makes one of goroutines.
//
// All ranks make the same calls in the same order. A call returns nil on all of them, or an error
// on all: cancelling one rank's ctx ends the call on all ranks. A trainer whose step or run fails
// makes the others fail. If a rank makes no further calls, the others wait for it until their ctx
// is cancelled.
type Group interface {
	Rank() int // from 0
	Size() int // number of ranks
	// AllReduce replaces the numbers by their sums over all ranks, which are equal on all.
	AllReduce(ctx context.Context, x []float64) error
	// AllGather returns what each rank has, by rank; the lengths may differ.
	AllGather(ctx context.Context, own []byte) ([][]byte, error)
	// AllReduceGrads begins to replace the elements of F32 tensors by their sums over all ranks, which are equal
	// on all ranks. When it returns, the elements have been read; wait waits for the sums, and writes
	// them. Several sums may be under way: they are waited for in their order, and AllReduce may be called
	// between. A rank begins and waits whatever has happened to it, and reports errors in a call of AllReduce.
	AllReduceGrads(ctx context.Context, grads []*ggml.Tensor) (wait func() error)
}

// alone is one process.
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

func groupOf(g Group) Group {
	if g == nil {
		return alone{}
	}
	return g
}

// agree adds up numbers over all ranks of a group, unless one of them comes with an error: then all
// have one. A rank that fails takes part, so that no other waits for it.
func agree(ctx context.Context, g Group, err error, sums []float64) error {
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
func checkGroup(g Group) error {
	if rank, size := g.Rank(), g.Size(); rank < 0 || rank >= size {
		return fmt.Errorf("a group of %d processes has no rank %d; ranks count from 0", size, rank)
	}
	return nil
}

// A SharedError is one that all ranks of a group have together, and need be told once.
type SharedError struct {
	Err       error
	Elsewhere bool // one rank has another error, which tells what happened
}

func (e *SharedError) Error() string { return fmt.Sprint(e.Unwrap()) }

func (e *SharedError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// groupError returns the error of a call of the group. A call that was cancelled elsewhere stops
// the run here.
func groupError(err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("a process of the group was stopped: %w", errors.Join(ErrStopped, err))
	}
	return fmt.Errorf("the group: %w", err)
}
