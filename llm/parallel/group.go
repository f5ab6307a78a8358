package parallel

import (
	"context"

	"github.com/goggml/ggml"
)

// A Group is a process's membership in a group of processes, its ranks, that train one model
// together. Each has a trainer with the same options and data, computes its share of the rows of
// each step and of held-out data, and ends up with the same parameters, history and evaluations,
// which equal a single process's but for rounding. [Local] makes one of goroutines, and [Join]
// one of the processes that a launcher has started.
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
