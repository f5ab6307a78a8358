package ggml_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/goggml/ggml"
)

// A plan saves the preparation of each computation of the same graph.
func ExampleGraphPlan() {
	backend, err := ggml.NewCPUBackend(1)
	check(err)
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3)
	y := c.Sqr(x)
	buffers, err := c.Allocate(backend.BufferType())
	check(err)
	defer buffers.Close()
	check(ggml.Write(x, []float32{1, 2, 3}))
	plan, err := backend.NewPlan(c.NewGraph(y))
	check(err)
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

// Three devices, here all the same, share the columns of a weight.
func ExampleSplitEvenly() {
	cpu, err := ggml.DeviceByType(ggml.CPU)
	check(err)
	all, err := ggml.NewMetaDevice(func(w *ggml.Tensor) ggml.TensorSplit {
		split := ggml.SplitEvenly(w, ggml.SplitAxis1, 1, 3)
		fmt.Println(w, split.Segments[0].Sizes)
		return split
	}, cpu, cpu, cpu)
	check(err)
	c := ggml.NewContext()
	defer c.Close()
	c.NewTensor(ggml.F32, 4, 10).SetName("weight")
	buffers, err := c.Allocate(all.BufferType())
	check(err)
	defer buffers.Close()
	// Output:
	// weight f32[4, 10] [3 3 4]
}

// A program offers its CPU until it is interrupted. Another one computes there.
func ExampleServeRPC() {
	const endpoint = "127.0.0.1:50052"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() {
		err := ggml.ServeRPC(ctx, endpoint, ggml.RPCServerOptions{Threads: 4})
		if ctx.Err() == nil {
			log.Fatal(err)
		}
	}()

	remote, err := ggml.AddRPCServer(endpoint) // in practice elsewhere, and again until it is up
	check(err)
	for _, d := range remote.Devices() {
		fmt.Println(d.Name(), d.Properties().MemoryFree)
	}
}
