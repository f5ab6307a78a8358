package ggml_test

import (
	"context"
	"fmt"
	"runtime"

	"github.com/goggml/ggml"
)

// A background program lowers the priority of its threads.
func ExampleThreadPool() {
	pool := must(ggml.NewThreadPool(ggml.ThreadPoolParams{Threads: 2, Priority: ggml.PriorityLow}))
	defer pool.Close()
	backend := must(ggml.NewCPUBackend(0))
	defer backend.Close()
	check(backend.SetThreadPool(pool))

	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3)
	y := c.Sqr(x)
	graph := c.NewGraph(y)
	buffers := must(c.Allocate(backend.BufferType()))
	defer buffers.Close()
	check(ggml.Write(x, []float32{1, 2, 3}))
	check(backend.Compute(context.Background(), graph))
	values := must(ggml.Read[float32](y))
	fmt.Println(pool.NumThreads(), values)
	// Output: 2 [1 4 9]
}

// The instruction sets of a plugin explain why a computation is slow on one machine and fast on
// another.
func ExampleCPUInfo() {
	info := must(ggml.ReadCPUInfo())
	fmt.Println(info.NEON && runtime.GOARCH == "amd64")
	// Output: false
}

// The settings of a thread pool start from the defaults.
func ExampleThreadPoolParams() {
	params := ggml.DefaultThreadPoolParams(2)
	params.Priority = ggml.PriorityLow
	pool := must(ggml.NewThreadPool(params))
	defer pool.Close()
	fmt.Println(pool.NumThreads())
	// Output: 2
}

// The instruction sets of the CPU plugin determine its speed.
func ExampleFeature() {
	features := must(ggml.CPUFeatures())
	for _, f := range features {
		if f.Name == "AVX512_BF16" {
			// Products of bfloat16 are fast here.
			break
		}
	}
	fmt.Println(len(features) > 0)
	// Output: true
}
