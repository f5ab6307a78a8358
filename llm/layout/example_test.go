package layout_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
)

// tinyModel returns a model with random weights.
func tinyModel() *model.Model {
	m := must(model.New(arch.Config{
		Arch: "llama", Vocab: 64, Context: 128, Embd: 32, FF: 48, Layers: 2, Heads: 2, KVHeads: 1, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 1))
	return m
}

// Split a model over a GPU, if there is one, and the CPU: the first 20 layers on the GPU, the rest on the CPU.
func ExampleLayout() {
	l := layout.Layout{} // all on the CPU
	if gpu, err := ggml.DeviceByType(ggml.GPU); err == nil {
		l.Devices = []*ggml.Device{gpu}
		l.Of = func(layer int, _ layout.Kind) int {
			if layer >= 0 && layer < 20 {
				return 0
			}
			return 1 // the CPU, always the last
		}
	}
	// Pass it to model.Load; sessions and trainers use the model's layout.
	fmt.Println(l.IsCPU() == (l.String() == "CPU"))
	// Output: true
}

// Plan a model over all GPUs: as many layers as fit together with a session.
func ExamplePlanner() {
	m := tinyModel() // or model.Load: a model on the CPU is mapped, not read
	defer m.Close()
	needs := estimate.New()
	check(infer.AddEstimate(needs, m, infer.SessionOptions{Context: 64}))
	var gpus []*ggml.Device
	devices := must(ggml.Devices())
	for _, d := range devices {
		if d.Type() == ggml.GPU {
			gpus = append(gpus, d)
		}
	}
	plan := must(layout.Planner{Devices: gpus, Layers: m.Config().Layers, Tied: m.Config().Tied, Need: needs.In}.Plan())
	// Pass plan.Layout to model.Load; plan describes itself.
	fmt.Println(plan.IsCPU() == (plan.String() == "the whole model is on the CPU"))
	// Output: true
}

// The error for too many layers says how many fit.
func ExampleShortageError() {
	err := fmt.Errorf("plan: %w", &layout.ShortageError{Device: "CUDA0", Layers: 24, Need: 9 << 30, Free: 7 << 30, Fit: 19}) // as returned by Plan
	var short *layout.ShortageError
	if errors.As(err, &short) {
		fmt.Println(short)
		fmt.Println("so it will be", short.Fit)
	}
	// Output:
	// 24 layers with all that belongs to them need 9.0 GiB of CUDA0, which has 7.0 GiB free; there is room for 19
	// so it will be 19
}

// Allocate tensors on the device that a layout assigns to their weight.
func ExampleMemory() {
	c := ggml.NewContext()
	defer c.Close()
	memory := layout.NewMemory(layout.Layout{})
	defer memory.Close()
	for layer := range 2 {
		memory.Add(layer, layout.KVCache, c.NewTensor(ggml.F16, 64, 128))
	}
	check(memory.Allocate())
	fmt.Println(memory.Sizes().Total()/1024, "KiB on the", memory.Layout())
	// Output: 32 KiB on the CPU
}

// Sizes has one element per device of a layout, the CPU last.
func ExampleSizes() {
	weights, results := layout.Sizes{5 << 30, 1 << 30}, layout.Sizes{2 << 30, 0}
	all := weights.Plus(results)
	fmt.Println(all[0]>>30, "GiB on the device,", all.Total()>>30, "in all")
	// Output: 7 GiB on the device, 8 in all
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
