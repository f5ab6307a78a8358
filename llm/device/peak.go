package device

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/operands"
)

// PeakFLOPS measures the maximum floating-point operations per second for training a model with a number of layers: the
// speed of large products with frozen weights in the compute type, with the ops of the devices that hold the layers. It
// takes less than a second per device, and frees its memory.
func (e *Engine) PeakFLOPS(ctx context.Context, compute ggml.Type, layers int) (float64, error) {
	if most := 1 << 16; layers < 1 || layers > most {
		return 0, fmt.Errorf("a model cannot have %d layers; it has 1 to %d", layers, most)
	}
	lowerings, err := e.Lowerings(Use{Compute: compute})
	if err != nil {
		return 0, err
	}
	peaks, seconds := map[int]float64{}, 0.0 // seconds per operation of an average layer
	for layer := range layers {
		i := e.place(layer, "")
		if peaks[i] == 0 {
			if peaks[i], err = peakOf(ctx, e.backends[i], lowerings(layer, ""), compute); err != nil {
				return 0, fmt.Errorf("the products of %s: %w", e.places.Devices[i].Name(), err)
			}
		}
		seconds += 1 / peaks[i] / float64(layers)
	}
	return 1 / seconds, nil
}

// Products for measuring: as large as in training, but no larger than timing needs.
const (
	smallestPeak, largestPeak = 1024, 4096 // matrix dimensions
	shortestPeak              = 5 * time.Millisecond
	peakBudget                = 200 * time.Millisecond // time per size
	peakProducts              = 4                      // products per computation
)

func peakOf(ctx context.Context, b *ggml.Backend, l *nn.Lowering, compute ggml.Type) (best float64, err error) {
	for n := int64(smallestPeak); n <= largestPeak; n *= 2 {
		took, err := timeProducts(ctx, b, l, compute, n)
		if err != nil {
			return 0, err
		}
		best = max(best, peakProducts*2*math.Pow(float64(n), 3)/took.Seconds())
		if took > shortestPeak {
			break
		}
	}
	return best, nil
}

// timeProducts returns the shortest time of a computation of peakProducts products of n×n matrices.
func timeProducts(ctx context.Context, b *ggml.Backend, l *nn.Lowering, compute ggml.Type, n int64) (time.Duration, error) {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	x := leaves.NewTensor(ggml.F32, n, n)
	t := &nn.Tape{C: c, Lowering: l}
	input := nn.Cast.Build(t, x)
	integers := compute == ggml.I16 || compute == ggml.I8
	if integers {
		compute = input.Type()
	}
	w := leaves.NewTensor(compute, n, n)
	var sum *ggml.Tensor // sum of one element of each product, so that their memory can be reused
	for i := range peakProducts {
		product := nn.MatMul
		if integers && i%2 == 1 { // gradients are in other integers
			product = nn.MatMulGradInput
		}
		y := c.View(product.Build(t, nn.Products{List: []nn.Product{{W: w, X: input}}}), []int64{1}, nil, 0)
		if sum != nil {
			y = c.Add(sum, y)
		}
		sum = y
	}
	g := c.NewGraph(sum)
	times, err := operands.Times(ctx, b, leaves, g, sum, peakBudget)
	if err != nil {
		return 0, err
	}
	return slices.Min(times), nil
}
