package device_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
)

// Compute a graph on the devices of a layout, in the engine's shared graph memory.
func ExampleEngine() {
	e, err := device.New(device.Options{Layout: layout.On(nil), Threads: 2}) // nil means the CPU
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3).SetInput()
	y := c.Sqr(x).SetOutput()
	g := c.NewGraph()
	g.Expand(y)
	if err := e.Allocate(g); err != nil {
		log.Fatal(err)
	}
	if err := ggml.Write(x, []float32{1, 2, 3}); err != nil {
		log.Fatal(err)
	}
	if err := e.Compute(context.Background(), g); err != nil {
		log.Fatal(err)
	}
	fmt.Println(ggml.Read[float32](y))
	// Output: [1 4 9] <nil>
}

// Use a separate workspace for a graph whose results are to be kept. Its size is known in advance.
func ExampleWorkspace() {
	e, err := device.NewCPU(1)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	w, err := e.NewWorkspace()
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1024).SetInput()
	g := c.NewGraph()
	g.Expand(c.Sqr(x).SetOutput())
	before, err := w.Measure(g)
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Allocate(g); err != nil {
		log.Fatal(err)
	}
	fmt.Println(before.Total() >= 4096, before.Total() == w.Sizes().Total())
	// Output: true true
}

// Submit two graphs at once: the second reads what the first wrote to persistent memory, and is not cancelled once it
// has begun.
func ExampleWork() {
	e, err := device.NewCPU(1)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	c := ggml.NewContext()
	defer c.Close()
	memory := layout.NewMemory(e.Layout())
	defer memory.Close()
	sum, weight := c.NewTensor(ggml.F32, 1), c.NewTensor(ggml.F32, 1)
	memory.Add(0, "attn_q", sum, weight)
	if err := memory.Allocate(); err != nil {
		log.Fatal(err)
	}
	x := c.NewTensor(ggml.F32, 3).SetInput()
	measure, update := c.NewGraph(c.Copy(c.Sum(x), sum)), c.NewGraph(c.SubInPlace(weight, sum))
	var works []device.Work
	for _, g := range []*ggml.Graph{measure, update} {
		w, err := e.NewWorkspace()
		if err != nil {
			log.Fatal(err)
		}
		defer w.Close()
		if err := w.Allocate(g); err != nil {
			log.Fatal(err)
		}
		works = append(works, device.Work{Workspace: w, Graph: g})
	}
	if err := errors.Join(ggml.Write(x, []float32{1, 2, 3}), ggml.Write(weight, []float32{10})); err != nil {
		log.Fatal(err)
	}
	if err := works[0].Workspace.ComputeThen(context.Background(), measure, works[1]); err != nil {
		log.Fatal(err)
	}
	fmt.Println(ggml.Read[float32](weight))
	// Output: [4] <nil>
}
