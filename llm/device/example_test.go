package device_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// tinyModel has random weights.
func tinyModel() *model.Model {
	m, err := model.New(arch.Config{
		Arch: "llama", Vocab: 64, Context: 128, Embd: 32, FF: 48, Layers: 2, Heads: 2, KVHeads: 1, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 1)
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// Spread a model over a GPU, where there is one, and the CPU: the first 20 layers here, the rest
// there.
func ExampleLayout() {
	layout := device.Layout{} // the CPU
	if gpu, err := ggml.DeviceByType(ggml.GPU); err == nil {
		layout.Devices = []*ggml.Device{gpu}
		layout.Of = func(layer int, _ string) int {
			if layer >= 0 && layer < 20 {
				return 0
			}
			return 1 // the CPU, which is always the last
		}
	}
	// model.Load takes it, and what is made for the model goes by it.
	fmt.Println(layout.IsCPU() == (layout.String() == "CPU"))
	// Output: true
}

// Lay a model over the GPUs there are: as many of its layers as they have room for, with what a session needs.
func ExamplePlanner() {
	m := tinyModel() // or model.Load: on the CPU nothing is read
	defer m.Close()
	demand := device.NewDemand()
	if err := infer.AddDemand(demand, m, infer.SessionOptions{Context: 64}); err != nil {
		log.Fatal(err)
	}
	var gpus []*ggml.Device
	devices, err := ggml.Devices()
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range devices {
		if d.Type() == ggml.GPU {
			gpus = append(gpus, d)
		}
	}
	plan, err := device.Planner{Devices: gpus, Layers: m.Config().Layers, Tied: m.Config().Tied, Need: demand.In}.Plan()
	if err != nil {
		log.Fatal(err)
	}
	// Pass plan.Layout to model.Load; plan describes itself.
	fmt.Println(plan.IsCPU() == (plan.String() == "all of the model is on the CPU"))
	// Output: true
}

// The error for too many layers says how many fit.
func ExampleShortageError() {
	err := fmt.Errorf("plan: %w", &device.ShortageError{Device: "CUDA0", Layers: 24, Need: 9 << 30, Free: 7 << 30, Fit: 19}) // as of Plan
	var short *device.ShortageError
	if errors.As(err, &short) {
		fmt.Println(short)
		fmt.Println("so it will be", short.Fit)
	}
	// Output:
	// 24 layers with all that belongs to them need 9.0 GiB of CUDA0, which has 7.0 GiB free; there is room for 19
	// so it will be 19
}

// Know what a layout needs before anything lies there.
func ExampleDemand() {
	m := tinyModel()
	defer m.Close()
	demand := device.NewDemand()
	if err := infer.AddDemand(demand, m, infer.SessionOptions{Context: 64}); err != nil {
		log.Fatal(err)
	}
	need, err := demand.In(device.Layout{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(need.Total() > m.Sizes().Total())
	// Output: true
}

// Compute a graph on the devices of a layout, by the memory that the engine's graphs share.
func ExampleEngine() {
	e, err := device.New(device.Options{Layout: device.On(nil), Threads: 2}) // nil is the CPU
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

// A workspace is memory beside the engine's, here for a graph whose results are to stay. Its size
// is known before.
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

// Give tensors memory where a layout puts what belongs to them.
func ExampleMemory() {
	c := ggml.NewContext()
	defer c.Close()
	memory := device.NewMemory(device.Layout{})
	defer memory.Close()
	for layer := range 2 {
		memory.Add(layer, device.KVCache, c.NewTensor(ggml.F16, 64, 128))
	}
	if err := memory.Allocate(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(memory.Sizes().Total()/1024, "KiB on the", memory.Layout())
	// Output: 32 KiB on the CPU
}

// Sizes are of the devices of a layout, the CPU last.
func ExampleSizes() {
	weights, results := device.Sizes{5 << 30, 1 << 30}, device.Sizes{2 << 30, 0}
	all := weights.Plus(results)
	fmt.Println(all[0]>>30, "GiB on the device,", all.Total()>>30, "in all")
	// Output: 7 GiB on the device, 8 in all
}

// Two graphs are one submission: the second goes on from what the first has left in memory of its
// own, and is not cancelled once it has begun.
func ExampleWork() {
	e, err := device.NewCPU(1)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	c := ggml.NewContext()
	defer c.Close()
	memory := device.NewMemory(e.Layout())
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
