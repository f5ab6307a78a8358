package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/operands"
)

// measureCard measures square products in each type, and a copy. The product in BF16 is the ceiling of the
// other parts.
func measureCard(ctx context.Context, o *options, emit func(row ...string)) error {
	d, err := o.gpu()
	if err != nil {
		return err
	}
	b, err := d.NewBackend()
	if err != nil {
		return err
	}
	defer b.Close()
	n := int64(o.product)
	for _, t := range []ggml.Type{ggml.BF16, ggml.F16, ggml.F32} {
		what := fmt.Sprintf("product of %d³ in %s", n, strings.ToUpper(t.String()))
		seconds, err := timeOf(ctx, b, func(c *ggml.Context) []*ggml.Tensor {
			other := t
			if t == ggml.F16 {
				other = ggml.F32 // sums of 16-bit products would be computed differently
			}
			return []*ggml.Tensor{c.NewTensor(t, n, n), c.NewTensor(other, n, n)}
		}, func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor { return c.MulMat(x[0], x[1]) })
		if err != nil {
			emit(d.Name(), what, err.Error())
			continue
		}
		rate := 2 * float64(n) * float64(n) * float64(n) / seconds
		emit(d.Name(), what, fmt.Sprintf("%.3g TFLOP/s", rate/1e12))
		if t == ggml.BF16 {
			emit(bf16Flag, fmt.Sprint(rate))
		}
	}
	seconds, err := timeOf(ctx, b, func(c *ggml.Context) []*ggml.Tensor {
		return []*ggml.Tensor{c.NewTensor(ggml.F32, n, 2*n)}
	}, func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor { return c.Dup(x[0]) })
	if err != nil {
		return err
	}
	emit(bandwidthFlag, fmt.Sprint(16*float64(n)*float64(n)/seconds))
	emit(d.Name(), fmt.Sprintf("copy of %.3g GB, read and written", 8*float64(n)*float64(n)/1e9), fmt.Sprintf("%.3g GB/s", 16*float64(n)*float64(n)/seconds/1e9))
	return nil
}

// repeats is the number of copies of an op in the timed graph.
const repeats = 8

// timeOf returns the median time of an op on random operands.
func timeOf(ctx context.Context, b *ggml.Backend, leavesOf func(c *ggml.Context) []*ggml.Tensor, op func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor) (seconds float64, err error) {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	x := leavesOf(leaves)
	var nodes []*ggml.Tensor
	for range repeats {
		nodes = append(nodes, op(c, x))
	}
	g := c.NewGraph(nodes...)
	if err := c.Err(); err != nil {
		return 0, err
	}
	if !b.Device().SupportsOp(nodes[0]) {
		return 0, fmt.Errorf("the device has no %s of these types", nodes[0].Op())
	}
	times, err := operands.Times(ctx, b, leaves, g, nodes[repeats-1], time.Minute)
	if err != nil {
		return 0, err
	}
	slices.Sort(times)
	return times[len(times)/2].Seconds() / repeats, nil
}
