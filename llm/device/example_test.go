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
	e := must(device.New(device.Options{Layout: layout.On(nil), Threads: 2})) // nil means the CPU
	defer e.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3).SetInput()
	y := c.Sqr(x).SetOutput()
	g := c.NewGraph()
	g.Expand(y)
	check(e.Allocate(g))
	check(ggml.Write(x, []float32{1, 2, 3}))
	check(e.Compute(context.Background(), g))
	fmt.Println(ggml.Read[float32](y))
	// Output: [1 4 9] <nil>
}

// Use a separate workspace for a graph whose results are to be kept. Its size is known in advance.
func ExampleWorkspace() {
	e := must(device.NewCPU(1))
	defer e.Close()
	w := must(e.NewWorkspace())
	defer w.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1024).SetInput()
	g := c.NewGraph()
	g.Expand(c.Sqr(x).SetOutput())
	before := must(w.Measure(g))
	check(w.Allocate(g))
	fmt.Println(before.Total() >= 4096, before.Total() == w.Sizes().Total())
	// Output: true true
}

// Submit two graphs at once: the second reads what the first wrote to persistent memory, and is not cancelled once it
// has begun.
func ExampleWork() {
	e := must(device.NewCPU(1))
	defer e.Close()
	c := ggml.NewContext()
	defer c.Close()
	memory := layout.NewMemory(e.Layout())
	defer memory.Close()
	sum, weight := c.NewTensor(ggml.F32, 1), c.NewTensor(ggml.F32, 1)
	memory.Add(0, "attn_q", sum, weight)
	check(memory.Allocate())
	x := c.NewTensor(ggml.F32, 3).SetInput()
	measure, update := c.NewGraph(c.Copy(c.Sum(x), sum)), c.NewGraph(c.SubInPlace(weight, sum))
	var works []device.Work
	for _, g := range []*ggml.Graph{measure, update} {
		w := must(e.NewWorkspace())
		defer w.Close()
		check(w.Allocate(g))
		works = append(works, device.Work{Workspace: w, Graph: g})
	}
	check(errors.Join(ggml.Write(x, []float32{1, 2, 3}), ggml.Write(weight, []float32{10})))
	check(works[0].Workspace.ComputeThen(context.Background(), measure, works[1]))
	fmt.Println(ggml.Read[float32](weight))
	// Output: [4] <nil>
}

// check ends an example at an error; a program returns it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](x T, err error) T {
	check(err)
	return x
}
