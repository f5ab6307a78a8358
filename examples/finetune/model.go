package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// modelFlags are where the model is computed, and what is changed of it.
type modelFlags struct {
	Device     string  `name:"device" xor:"device" placeholder:"NAME" help:"What computes and holds the weights, such as CPU, CUDA0 or Vulkan0; by default the CPU. An unknown name lists those of this machine." group:"Computing"`
	GPULayers  int     `name:"n-gpu-layers" aliases:"gpu-layers,ngl" xor:"device" range:"[0,)" placeholder:"N" help:"More than 0 computes the whole model on the first GPU, whatever the number: --device says the same by name." group:"Computing"`
	NormRMSEps float32 `name:"norm-rms-eps" range:"[0,)" default:"0" help:"What the RMS norms add to the mean square; 0 is what the model says." group:"Model"`
	FreqBase   float32 `name:"rope-freq-base" range:"[0,)" default:"0" help:"Base of RoPE's frequencies; 0 is what the model says. The adapter then goes with a model that is run so." group:"Model"`
	FreqScale  float32 `name:"rope-freq-scale" range:"[0,)" default:"0" help:"Factor of RoPE's frequencies; 0 is what the model says." group:"Model"`
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

// load opens the model on the engine's device.
func (f *modelFlags) load(path string, e *device.Engine) (*model.Model, error) {
	m, err := model.Load(path, model.LoadOptions{Device: e.Device()})
	if err != nil {
		return nil, fmt.Errorf("--model-base: %w", err)
	}
	if f.NormRMSEps > 0 {
		m.RMSEps = f.NormRMSEps
	}
	if f.FreqBase > 0 {
		m.RoPE.FreqBase = f.FreqBase
	}
	if f.FreqScale > 0 {
		m.RoPE.FreqScale = f.FreqScale
	}
	return m, nil
}

// llamaFlags are those by which llama.cpp runs the model in the same way.
func (f *modelFlags) llamaFlags() string {
	flags := ""
	if f.FreqBase > 0 {
		flags += fmt.Sprintf(" --rope-freq-base %v", f.FreqBase)
	}
	if f.FreqScale > 0 {
		flags += fmt.Sprintf(" --rope-freq-scale %v", f.FreqScale)
	}
	return flags
}
