package parallel

import (
	"context"
	"fmt"

	"github.com/goggml/ggml"
)

// A Group is a process's membership in a group of processes, its ranks, that train one model together. Each rank has
// a trainer with the same options and data, and computes its share of the rows of each step and of held-out data.
// All end up with the same parameters, history and evaluations, which equal a single process's but for rounding.
// [Local] makes a group of goroutines, and [Join] one of the processes that a launcher has started.
//
// All ranks make the same calls in the same order. A call returns nil on all ranks, or an error on all: cancelling
// one rank's ctx ends the call on all ranks. A trainer whose step or run fails makes the others fail. If a rank
// makes no further calls, the others wait for it until their ctx is cancelled.
type Group interface {
	Rank() int // from 0
	Size() int // number of ranks
	// AllReduce replaces x by its elementwise sum over all ranks; the sums are equal on all ranks.
	AllReduce(ctx context.Context, x []float64) error
	// AllGather returns the bytes of each rank, indexed by rank; the lengths may differ.
	AllGather(ctx context.Context, own []byte) ([][]byte, error)
	// AllReduceGrads begins to replace the elements of F32 tensors by their sums over all ranks, which are equal on
	// all ranks. It returns once the elements have been read; wait waits for the sums and writes them. Several sums
	// may be in flight: wait for them in the order in which they began; AllReduce may be called in between. A rank
	// must begin and wait even after an error, and report the error in a call of AllReduce.
	AllReduceGrads(ctx context.Context, grads []*ggml.Tensor) (wait func() error)
}

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

// OrAlone returns g, or a group of one process if g is nil.
func OrAlone(g Group) Group {
	if g == nil {
		return alone{}
	}
	return g
}

// CheckRank returns an error unless the rank of a group is less than its size.
func CheckRank(g Group) error {
	g = OrAlone(g)
	if rank, size := g.Rank(), g.Size(); rank < 0 || rank >= size {
		return fmt.Errorf("a group of %d processes has no rank %d; ranks count from 0", size, rank)
	}
	return nil
}
