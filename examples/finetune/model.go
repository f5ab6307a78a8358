package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// modelFlags are where the model is computed, and what is changed of it.
type modelFlags struct {
	Device    string `name:"device" xor:"device" placeholder:"NAME" help:"What computes and holds the weights, such as CPU, CUDA0 or Vulkan0; by default the CPU. An unknown name lists those of this machine." group:"Computing" basic:""`
	GPULayers int    `name:"n-gpu-layers" aliases:"gpu-layers,ngl" xor:"device" range:"[0,)" placeholder:"N" help:"More than 0 computes the whole model on the first GPU, whatever the number: --device says the same by name." group:"Computing"`

	inference.Overrides
}

// engine opens the device.
func (f *modelFlags) engine(threads int) (*device.Engine, error) {
	if f.GPULayers == 0 {
		return cli.NewEngine(f.Device, threads)
	}
	devices, err := ggml.Devices()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(devices, func(d *ggml.Device) bool { return d.Type() == ggml.GPU || d.Type() == ggml.IntegratedGPU })
	if i < 0 {
		return nil, errors.New("--n-gpu-layers: there is no GPU that a plugin of ggml knows; leave it out to train on the CPU")
	}
	fmt.Fprintf(os.Stderr, "--n-gpu-layers %d: all layers are computed on %s\n", f.GPULayers, devices[i].Name())
	return cli.NewEngine(devices[i].Name(), threads)
}

// load opens the model in the layout of the engine.
func (f *modelFlags) load(path string, e *device.Engine) (*model.Model, error) {
	m, err := model.Load(path, model.LoadOptions{Layout: e.Layout(), Override: f.Override})
	if err != nil {
		return nil, cli.ModelError("--model-base", path, err)
	}
	return m, nil
}
