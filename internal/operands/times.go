package operands

import (
	"context"
	"time"

	"github.com/goggml/ggml"
)

// mostTimes is how often a graph is timed at most.
const mostTimes = 5

// Times are how long a backend takes for a graph that ends in result, again and again for so long, once at least, after a
// time that is not among them. The graph is of leaves without memory, which get random values.
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
		if _, err := result.ReadAt(value, 0); err != nil { // which servers compute before they answer
			return nil, err
		}
		if i > 0 { // the first one compiles
			times = append(times, time.Since(began))
		}
	}
	return times, nil
}
