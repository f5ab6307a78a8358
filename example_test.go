package ggml_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/goggml/ggml"
)

// check ends an example at an error; a program returns it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

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

// The first error of an op is kept; later ops may be written as if nothing
// had happened.
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
	// ggml: add(x f32[3], two f32[2]): dimension 0: 3 is no multiple of 2, so the second operand cannot be repeated to the shape of the first
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

// A graph holds what its outputs depend on, in the order of computation.
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
	backend, err := ggml.NewCPUBackend(1) // one thread; 0 takes what suits
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

// Closing a buffer makes the tensors in it unallocated.
func ExampleBuffer() {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1000)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	check(err)
	fmt.Println(buffers.Size(), x.IsAllocated())
	check(buffers.Clear(0))
	buffers.Close()
	fmt.Println(x.IsAllocated(), errors.Is(ggml.Write(x, make([]float32, 1000)), ggml.ErrNotAllocated))
	// Output:
	// 4000 true
	// false true
}

func ExampleBufferType() {
	bt := ggml.CPUBufferType()
	b, err := bt.NewBuffer(1 << 20)
	check(err)
	defer b.Close()
	fmt.Println(bt.Name(), b.Size(), bt.IsHost())
	// Output: CPU 1048576 true
}

// Tensors of a context in a buffer of one's own.
func ExampleTensorAllocator() {
	b, err := ggml.CPUBufferType().NewBuffer(4096)
	check(err)
	defer b.Close()
	a, err := ggml.NewTensorAllocator(b)
	check(err)
	c := ggml.NewContext()
	defer c.Close()
	small, large := c.NewTensor(ggml.F32, 100), c.NewTensor(ggml.F32, 1000)
	fmt.Println(a.Alloc(small), small.IsAllocated())
	fmt.Println(errors.Is(a.Alloc(large), ggml.ErrOutOfMemory), large.IsAllocated())
	// Output:
	// <nil> true
	// true false
}

// The results in between share memory: a hundred of them take the room of two.
func ExampleGraphAllocator() {
	backend, err := ggml.NewCPUBackend(1)
	check(err)
	defer backend.Close()
	alloc, err := ggml.NewGraphAllocator(backend.BufferType())
	check(err)
	defer alloc.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1024, 1).SetInput()
	y := x
	for range 100 {
		y = c.Repeat(c.SumRows(c.Sqr(y)), 1024, 1)
		y = c.Scale(y, 1.0/1024)
	}
	g := c.NewGraph(y)
	check(alloc.Alloc(g))
	ones := make([]float32, 1024)
	for i := range ones {
		ones[i] = 1
	}
	check(ggml.Write(x, ones)) // an input is written before each compute
	check(backend.Compute(context.Background(), g))
	result, err := ggml.Read[float32](y)
	check(err)
	fmt.Println(result[0], g.NumNodes(), alloc.Size() <= 3*4*1024)
	// Output: 1 400 true
}

// The scheduler uses the first backend that suits an op; the CPU is last.
func ExampleScheduler() {
	var backends []*ggml.Backend
	best, err := ggml.NewBestBackend()
	check(err)
	defer best.Close()
	if best.Device().Type() != ggml.CPU {
		backends = append(backends, best)
	}
	cpu, err := ggml.NewCPUBackend(0)
	check(err)
	defer cpu.Close()
	s, err := ggml.NewScheduler(ggml.SchedulerOptions{}, append(backends, cpu)...)
	check(err)
	defer s.Close()

	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3).SetInput()
	y := c.SoftMax(x)
	g := c.NewGraph(y)
	check(s.Alloc(g))
	check(ggml.Write(x, []float32{0, 0, 0}))
	check(s.Compute(context.Background(), g))
	result, err := ggml.Read[float32](y)
	check(err)
	fmt.Printf("%.3f\n", result)
	// Output: [0.333 0.333 0.333]
}

func ExampleOpError() {
	c := ggml.NewContext()
	defer c.Close()
	w, x := c.NewTensor(ggml.F16, 4, 8).SetName("w"), c.NewTensor(ggml.F32, 5).SetName("x")
	c.MulMat(w, x)
	var e *ggml.OpError
	fmt.Println(errors.As(c.Err(), &e))
	fmt.Println(e.Op)
	fmt.Println(e.Operands)
	fmt.Println(e.Reason)
	fmt.Println(strings.HasPrefix(e.Caller, "example_test.go:"))
	// Output:
	// true
	// mul_mat
	// [w f16[4, 8] x f32[5]]
	// ne0 must be equal: a has 4, b has 5
	// true
}

// Finds w with w · x = y by AdamW: a graph computes the loss, its gradient,
// and the step.
func ExampleGraph_Backward() {
	backend, err := ggml.NewCPUBackend(1)
	check(err)
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()

	x, y := c.NewTensor(ggml.F32, 2, 3), c.NewTensor(ggml.F32, 1, 3)
	w := c.NewTensor(ggml.F32, 2).SetParam()
	loss := c.Sum(c.Sqr(c.Sub(c.MulMat(w, x), y))).SetLoss()
	g := c.NewTrainingGraph(loss)
	check(g.Backward())
	grad, _ := g.Grad(w)
	m, v := c.NewTensor(ggml.F32, 2), c.NewTensor(ggml.F32, 2)
	params := c.NewTensor(ggml.F32, 7)
	g.Expand(c.OptStepAdamW(ggml.AdamWOperands{Param: w, Grad: grad, M: m, V: v, Settings: params}))
	buffers, err := c.Allocate(backend.BufferType())
	check(err)
	defer buffers.Close()

	check(buffers.Clear(0))
	check(ggml.Write(x, []float32{1, 0, 0, 1, 1, 1}))
	check(ggml.Write(y, []float32{3, -2, 1}))
	beta1, beta2 := float32(1), float32(1)
	for range 400 {
		beta1, beta2 = beta1*0.9, beta2*0.99
		check(ggml.Write(params, []float32{0.1, 0.9, 0.99, 1e-8, 0, 1 / (1 - beta1), 1 / (1 - beta2)}))
		check(g.Reset())
		check(backend.Compute(context.Background(), g))
	}
	weights, err := ggml.Read[float32](w)
	check(err)
	fmt.Printf("%.3f\n", weights)
	// Output: [3.000 -2.000]
}

func must[T any](v T, err error) T {
	check(err)
	return v
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
