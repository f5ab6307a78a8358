package ggml_test

import (
	"context"
	"fmt"

	"github.com/goggml/ggml"
)

// A program in the background keeps out of the way of others.
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
	fmt.Println(pool.Threads(), values)
	// Output: 2 [1 4 9]
}

// The functions of SetEvalCallback look at the results on the way.
func ExampleScheduler_SetEvalCallback() {
	backend, err := ggml.NewCPUBackend(1)
	check(err)
	defer backend.Close()
	scheduler, err := ggml.NewScheduler(ggml.SchedulerOptions{}, backend)
	check(err)
	defer scheduler.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3).SetInput()
	graph := c.NewGraph(c.Sum(c.Sqrt(c.Sqr(x))))
	check(scheduler.Alloc(graph))
	check(ggml.Write(x, []float32{1, -2, 3}))

	check(scheduler.SetEvalCallback(
		func(t *ggml.Tensor) bool { return t.Op() != "sqr" },
		func(t *ggml.Tensor) error {
			values, err := ggml.Read[float32](t)
			fmt.Println(t.Op(), values)
			return err
		}))
	check(scheduler.Compute(context.Background(), graph))
	// Output:
	// sqrt [1 2 3]
	// sum [6]
}
