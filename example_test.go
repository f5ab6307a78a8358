package ggml_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goggml/ggml"
)

// The product of two matrices.
func Example() {
	backend, err := ggml.NewBestBackend()
	check(err)
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()

	a := c.NewTensor(ggml.F32, 2, 3) // 3 rows of 2
	b := c.NewTensor(ggml.F32, 2, 1) // 1 row of 2
	product := c.MulMat(a, b)        // every row of a times every row of b
	graph := c.NewGraph(product)
	buffers, err := c.Allocate(backend.BufferType())
	check(err)
	defer buffers.Close()

	check(ggml.Write(a, []float32{1, 2, 3, 4, 5, 6}))
	check(ggml.Write(b, []float32{10, 1}))
	check(backend.Compute(context.Background(), graph))
	result, err := ggml.Read[float32](product)
	check(err)
	fmt.Println(product.Shape(), result)
	// Output: [3] [12 34 56]
}

// The context keeps the first error of an op; later ops need no checks.
func ExampleContext() {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3).SetName("x")
	y := c.Silu(c.Scale(x, 2))
	fmt.Println(y, c.Err())

	z := c.Add(x, c.NewTensor(ggml.F32, 2).SetName("two"))
	z = c.Silu(c.Scale(z, 2))
	fmt.Println(z)
	message, _, _ := strings.Cut(c.Err().Error(), " (at example_test.go:")
	fmt.Println(message)
	// Output:
	// silu() f32[3] <nil>
	// (failed op)
	// ggml: add(x f32[3], two f32[2]): dimension 0: 3 is not a multiple of 2, so the second operand cannot be repeated to the shape of the first
}

// Dimension 0 is the fastest, and a view shares the memory.
func ExampleTensor() {
	c := ggml.NewContext()
	defer c.Close()
	m := c.NewTensor(ggml.I32, 3, 2).SetName("m") // 2 rows of 3
	row := c.View(m, []int64{3}, nil, m.Stride(1))
	transposed := c.Transpose(m)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	check(err)
	defer buffers.Close()

	check(ggml.Write(m, []int32{1, 2, 3, 4, 5, 6}))
	for _, t := range []*ggml.Tensor{m, row, transposed} {
		values, err := ggml.Read[int32](t)
		check(err)
		fmt.Println(t.Shape(), t.IsView(), t.IsContiguous(), values)
	}
	// Output:
	// [3 2] false true [1 2 3 4 5 6]
	// [3] true true [4 5 6]
	// [2 3] true false [1 4 2 5 3 6]
}

// A graph contains the dependencies of its outputs, in order of computation.
func ExampleGraph() {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 4).SetName("x")
	square := c.Sqr(x).SetName("square")
	c.Exp(x) // in no graph
	g := c.NewGraph(c.Sum(square).SetName("total"), c.Neg(square).SetName("minus"))
	for t := range g.Nodes() {
		fmt.Println(t, "=", t.Op())
	}
	// Output:
	// square f32[4] = sqr
	// total f32[1] = sum
	// minus f32[4] = neg
}

// A computation is cancelled by its context, and the backend stays usable.
func ExampleBackend() {
	backend, err := ggml.NewCPUBackend(1) // one thread; 0 means DefaultThreads
	check(err)
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	y := c.Arange(0, 4, 1)
	g := c.NewGraph(y)
	buffers, err := c.Allocate(backend.BufferType())
	check(err)
	defer buffers.Close()

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(backend.Compute(ctx, g))
	fmt.Println(backend.Compute(context.Background(), g))
	fmt.Println(ggml.Read[float32](y))
	// Output:
	// context canceled
	// <nil>
	// [0 1 2 3] <nil>
}

func ExampleDevice() {
	cpu, err := ggml.DeviceByType(ggml.CPU)
	check(err)
	fmt.Println(cpu.Name(), cpu.Type(), cpu.BufferType().IsHost())
	_, err = ggml.DeviceByName("Abacus")
	fmt.Println(errors.Is(err, ggml.ErrNotLoaded))
	// Output:
	// CPU CPU true
	// true
}

func Example_tenLines() {
	backend := must(ggml.NewCPUBackend(0))
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	a, b := c.NewTensor(ggml.F32, 2, 3), c.NewTensor(ggml.F32, 2, 1) // 3 rows of 2 numbers, and 1
	product := c.MulMat(a, b)                                        // every row of a times every row of b
	defer must(c.Allocate(backend.BufferType())).Close()
	check(errors.Join(ggml.Write(a, []float32{1, 2, 3, 4, 5, 6}), ggml.Write(b, []float32{10, 1})))
	check(backend.Compute(context.Background(), c.NewGraph(product)))
	fmt.Println(must(ggml.Read[float32](product))) // [12 34 56]
	// Output: [12 34 56]
}
