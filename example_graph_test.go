package ggml_test

import (
	"context"
	"fmt"

	"github.com/goggml/ggml"
)

// A graph with branches has the same nodes for every choice, so that an allocator plans it once.
func ExampleGraph_Select() {
	backend := must(ggml.NewCPUBackend(1))
	defer backend.Close()
	allocator := must(ggml.NewGraphAllocator(backend.BufferType()))
	defer allocator.Close()
	for branch := range 2 {
		c := ggml.NewContext()
		x := c.NewF32(3)
		g := c.NewGraph()
		y := c.Add(g.Select(branch, c.Sqr(x), c.Neg(x)), x).SetOutput()
		g.Expand(y)
		check(allocator.Allocate(g))
		check(backend.Compute(context.Background(), g))
		value := must(y.Float32At(0))
		fmt.Println(g.NumNodes(), value)
		c.Close()
	}
	// Output:
	// 3 12
	// 3 0
}

// A plan saves the preparation of each computation of the same graph.
func ExampleGraphPlan() {
	backend := must(ggml.NewCPUBackend(1))
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3)
	y := c.Sqr(x)
	buffers := must(c.Allocate(backend.BufferType()))
	defer buffers.Close()
	check(ggml.Write(x, []float32{1, 2, 3}))
	plan := must(backend.NewPlan(c.NewGraph(y)))
	defer plan.Close()
	for range 2 {
		check(plan.Compute(context.Background()))
		fmt.Println(ggml.Read[float32](y))
		check(ggml.CopyTensor(x, y))
	}
	// Output:
	// [1 4 9] <nil>
	// [1 16 81] <nil>
}

// Solves w · x = y for w by AdamW: a graph computes the loss, its gradient, and the step.
func ExampleGraph_Backward() {
	backend := must(ggml.NewCPUBackend(1))
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
	buffers := must(c.Allocate(backend.BufferType()))
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
	weights := must(ggml.Read[float32](w))
	fmt.Printf("%.3f\n", weights)
	// Output: [3.000 -2.000]
}

// Intermediate results share memory: a hundred of them need the memory of two.
func ExampleGraphAllocator() {
	backend := must(ggml.NewCPUBackend(1))
	defer backend.Close()
	alloc := must(ggml.NewGraphAllocator(backend.BufferType()))
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
	check(alloc.Allocate(g))
	ones := make([]float32, 1024)
	for i := range ones {
		ones[i] = 1
	}
	check(ggml.Write(x, ones)) // an input is written before each compute
	check(backend.Compute(context.Background(), g))
	result := must(ggml.Read[float32](y))
	fmt.Println(result[0], g.NumNodes(), alloc.Size() <= 3*4*1024)
	// Output: 1 400 true
}
