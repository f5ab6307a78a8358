package ggml_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goggml/ggml"
)

// A context with many weights may need several buffers.
func ExampleBuffers() {
	c := ggml.NewContext()
	defer c.Close()
	a, b := c.NewTensor(ggml.F32, 1000), c.NewTensor(ggml.F16, 1000)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	check(err)
	check(buffers.Clear(0))
	fmt.Println(a.IsAllocated(), b.IsAllocated(), buffers.Size() >= 6000)
	buffers.Close()
	fmt.Println(a.IsAllocated(), b.IsAllocated())
	// Output:
	// true true true
	// false false
}

// An event marks a place in the work of a device that runs beside the program.
// The CPU does not, and says so.
func ExampleEvent() {
	backend, err := ggml.NewCPUBackend(1)
	check(err)
	defer backend.Close()
	event, err := backend.Device().NewEvent()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer event.Close()
	check(event.Record(backend))
	check(event.Synchronize())
	// Output: ggml: device CPU has no events; use Synchronize of its backends
}

// Each plugin has its devices.
func ExampleRegistry() {
	for r := range ggml.Registries() {
		if r.Name() != "CPU" {
			continue // whatever else there is
		}
		for _, d := range r.Devices() {
			fmt.Println(r.Name(), d.Name(), d.Type())
		}
	}
	// Output: CPU CPU CPU
}

// The error of a file names it, and says what is wrong.
func ExampleFileError() {
	folder, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.gguf")
	check(os.WriteFile(path, []byte("something else"), 0o644))

	_, err = ggml.OpenGGUF(path)
	var e *ggml.FileError
	fmt.Println(errors.As(err, &e), filepath.Base(e.Path))
	fmt.Println(e.Reason)
	// Output:
	// true model.gguf
	// is not a GGUF file: it starts with "some" instead of "GGUF"; choose a file in that format
}

// A panic in a function that ggml calls is an error of the computation.
func ExamplePanicError() {
	backend, err := ggml.NewCPUBackend(1)
	check(err)
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3)
	y := c.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		panic("the function is not written yet")
	}, 1, x)
	graph := c.NewGraph(y)
	buffers, err := c.Allocate(backend.BufferType())
	check(err)
	defer buffers.Close()
	check(ggml.Write(x, []float32{1, 2, 3}))

	var e *ggml.PanicError
	fmt.Println(errors.As(backend.Compute(context.Background(), graph), &e))
	fmt.Println(e)
	// Output:
	// true
	// the function panicked: the function is not written yet
}

// Which ops take the time?
func ExampleProfile() {
	backend, err := ggml.NewCPUBackend(1)
	check(err)
	defer backend.Close()
	s, err := ggml.NewScheduler(ggml.SchedulerOptions{}, backend)
	check(err)
	defer s.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.Arange(0, 1000, 1)
	graph := c.NewGraph(c.Sum(c.Sqr(x)))
	check(s.Alloc(graph))
	profile, err := s.Profile(context.Background(), graph)
	check(err)
	for _, node := range profile {
		fmt.Println(node.Op, node.Backend.Name(), node.Time > 0)
	}
	fmt.Println(profile.Total() >= profile.Slowest()[0].Time)
	// Output:
	// arange CPU true
	// sqr CPU true
	// sum CPU true
	// true
}

// What the CPU plugin was built for decides how fast it is.
func ExampleFeature() {
	features, err := ggml.CPUFeatures()
	check(err)
	for _, f := range features {
		if f.Name == "AVX512_BF16" {
			// The products of bfloat16 are fast here.
			break
		}
	}
	fmt.Println(len(features) > 0)
	// Output: true
}

// The settings of a thread pool start from the defaults.
func ExampleThreadPoolParams() {
	params := ggml.DefaultThreadPoolParams(2)
	params.Priority = ggml.PriorityLow
	pool, err := ggml.NewThreadPool(params)
	check(err)
	defer pool.Close()
	fmt.Println(pool.Threads())
	// Output: 2
}
