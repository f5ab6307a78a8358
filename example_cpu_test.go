package ggml_test

import (
	"context"
	"fmt"
	"runtime"

	"github.com/goggml/ggml"
)

// A background program lowers the priority of its threads.
func ExampleThreadPool() {
	pool, err := ggml.NewThreadPool(ggml.ThreadPoolParams{Threads: 2, Priority: ggml.PriorityLow})
	check(err)
	defer pool.Close()
	backend, err := ggml.NewCPUBackend(0)
	check(err)
	defer backend.Close()
	check(backend.SetThreadPool(pool))

	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3)
	y := c.Sqr(x)
	graph := c.NewGraph(y)
	buffers, err := c.Allocate(backend.BufferType())
	check(err)
	defer buffers.Close()
	check(ggml.Write(x, []float32{1, 2, 3}))
	check(backend.Compute(context.Background(), graph))
	values, err := ggml.Read[float32](y)
	check(err)
	fmt.Println(pool.NumThreads(), values)
	// Output: 2 [1 4 9]
}

// The instruction sets of a plugin explain why a computation is slow on one machine and fast on
// another.
func ExampleCPUInfo() {
	info, err := ggml.ReadCPUInfo()
	check(err)
	fmt.Println(info.NEON && runtime.GOARCH == "amd64")
	// Output: false
}

// The settings of a thread pool start from the defaults.
func ExampleThreadPoolParams() {
	params := ggml.DefaultThreadPoolParams(2)
	params.Priority = ggml.PriorityLow
	pool, err := ggml.NewThreadPool(params)
	check(err)
	defer pool.Close()
	fmt.Println(pool.NumThreads())
	// Output: 2
}

// The instruction sets of the CPU plugin determine its speed.
func ExampleFeature() {
	features, err := ggml.CPUFeatures()
	check(err)
	for _, f := range features {
		if f.Name == "AVX512_BF16" {
			// Products of bfloat16 are fast here.
			break
		}
	}
	fmt.Println(len(features) > 0)
	// Output: true
}
