// Simple multiplies two small matrices.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
)

func main() {
	cli.Main("simple", func(ctx context.Context, out io.Writer) error { return multiply(ctx, out) })
}

// multiply prints A·Bᵀ. A shape starts with the length of a row: A has 4 rows of 2 numbers, B 3 rows of 2. The
// product has 3 rows of 4, one for each row of B.
func multiply(ctx context.Context, w io.Writer) error {
	backend, err := ggml.NewCPUBackend(0)
	if err != nil {
		return err
	}
	defer backend.Close()

	// Describe the computation …
	c := ggml.NewContext()
	defer c.Close()
	a := c.NewTensor(ggml.F32, 2, 4)
	b := c.NewTensor(ggml.F32, 2, 3)
	product := c.MulMat(a, b) // [4, 3]
	graph := c.NewGraph(product)

	// … allocate it, which also reports errors in it …
	memory, err := c.Allocate(backend.BufferType())
	if err != nil {
		return err
	}
	defer memory.Close()

	// … and run it on numbers.
	if err := ggml.Write(a, []float32{2, 8, 5, 1, 4, 2, 8, 6}); err != nil {
		return err
	}
	if err := ggml.Write(b, []float32{10, 5, 9, 9, 5, 4}); err != nil {
		return err
	}
	if err := backend.Compute(ctx, graph); err != nil {
		return err
	}
	values, err := ggml.Read[float32](product)
	if err != nil {
		return err
	}
	for i := 0; i < len(values); i += 4 {
		if _, err := fmt.Fprintf(w, "%4.0f\n", values[i:i+4]); err != nil {
			return err
		}
	}
	return nil
}
