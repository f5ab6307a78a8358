package ggml_test

import (
	"context"
	"fmt"

	"github.com/goggml/ggml"
)

// The functions of SetEvalCallback see intermediate results.
func ExampleScheduler_SetEvalCallback() {
	backend := must(ggml.NewCPUBackend(1))
	defer backend.Close()
	scheduler := must(ggml.NewScheduler(ggml.SchedulerOptions{}, backend))
	defer scheduler.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3).SetInput()
	graph := c.NewGraph(c.Sum(c.Sqrt(c.Sqr(x))))
	check(scheduler.Allocate(graph))
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

// The scheduler uses the first backend that supports an op; the CPU is last.
func ExampleScheduler() {
	var backends []*ggml.Backend
	best := must(ggml.NewBestBackend())
	defer best.Close()
	if best.Device().Type() != ggml.CPU {
		backends = append(backends, best)
	}
	cpu := must(ggml.NewCPUBackend(0))
	defer cpu.Close()
	s := must(ggml.NewScheduler(ggml.SchedulerOptions{}, append(backends, cpu)...))
	defer s.Close()

	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3).SetInput()
	y := c.SoftMax(x)
	g := c.NewGraph(y)
	check(s.Allocate(g))
	check(ggml.Write(x, []float32{0, 0, 0}))
	check(s.Compute(context.Background(), g))
	result := must(ggml.Read[float32](y))
	fmt.Printf("%.3f\n", result)
	// Output: [0.333 0.333 0.333]
}
