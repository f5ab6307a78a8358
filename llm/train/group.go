package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/goggml/ggml"
)

// A Group is the place of a process among those that train one model together, its ranks: each has
// a trainer with the same options and data, computes its share of the rows of each step, and of
// held-out data, and ends up with the same parameters, history and evaluations, which are those of
// one process but for rounding. [LocalGroup] makes one of goroutines.
//
// All ranks make the same calls in the same order. A call returns nil on all of them, or an error
// on all: one whose ctx is cancelled ends that of the others. A trainer whose step or run fails
// lets the others fail; where a rank makes no further calls, the others wait for it until their
// ctx is cancelled.
type Group interface {
	Rank() int // from 0
	Size() int // number of ranks
	// Sum replaces the numbers by their sums over all ranks, which are equal on all.
	Sum(ctx context.Context, x []float64) error
	// SumGrads begins to replace the elements of F32 tensors by their sums over all ranks, which
	// are equal on all: it has read them when it returns, and what it returns waits for the sums,
	// and writes them. Others may have begun by then, and are waited for in their order, calls of Sum
	// between. A rank begins and waits whatever has happened to it, and tells the others in a call of Sum.
	SumGrads(ctx context.Context, grads []*ggml.Tensor) (wait func() error)
}

// alone is one process.
type alone struct{}

func (alone) Rank() int                            { return 0 }
func (alone) Size() int                            { return 1 }
func (alone) Sum(context.Context, []float64) error { return nil }
func (alone) SumGrads(context.Context, []*ggml.Tensor) func() error {
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
	sumErr := g.Sum(ctx, all)
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

// checkGroup says what is wrong with the place of a process.
func checkGroup(g Group) error {
	if rank, size := g.Rank(), g.Size(); rank < 0 || rank >= size {
		return fmt.Errorf("a group of %d processes has no rank %d; ranks count from 0", size, rank)
	}
	return nil
}

// A SharedError is one that all ranks of a group have together, and need be told once.
type SharedError struct {
	Err       error
	Elsewhere bool // one rank has another one, which says what has happened
}

func (e *SharedError) Error() string { return fmt.Sprint(e.Unwrap()) }

func (e *SharedError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// groupError is that of a call of the group: one that was cancelled elsewhere stops the run here.
func groupError(err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("a process of the group was stopped: %w", errors.Join(ErrStopped, err))
	}
	return fmt.Errorf("the group: %w", err)
}
