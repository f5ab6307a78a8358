package operands

import (
	"context"
	"time"

	"github.com/goggml/ggml"
)

// mostTimes limits how often a graph is timed.
const mostTimes = 5

// Times returns how long a backend takes to compute a graph that ends in result. It repeats the computation for
// a duration, at least once, after a first one that does not count. The graph's leaves are not allocated; they
// get random values.
func Times(ctx context.Context, b *ggml.Backend, leaves *ggml.Context, g *ggml.Graph, result *ggml.Tensor, within time.Duration) ([]time.Duration, error) {
	buffers, err := leaves.Allocate(b.BufferType())
	if err != nil {
		return nil, err
	}
	defer buffers.Close()
	for t := range leaves.Tensors() {
		if err := Fill(t); err != nil {
			return nil, err
		}
	}
	allocator, err := ggml.NewGraphAllocator(b.BufferType())
	if err != nil {
		return nil, err
	}
	defer allocator.Close()
	if err := allocator.Allocate(g); err != nil {
		return nil, err
	}
	var times []time.Duration
	value := make([]byte, 4)
	for i, begun := 0, time.Now(); i < 2 || i <= mostTimes && time.Since(begun) < within; i++ {
		began := time.Now()
		if err := b.Compute(ctx, g); err != nil {
			return nil, err
		}
		if _, err := result.ReadAt(value, 0); err != nil { // servers compute before they answer
			return nil, err
		}
		if i > 0 { // the first computation compiles kernels
			times = append(times, time.Since(began))
		}
	}
	return times, nil
}
