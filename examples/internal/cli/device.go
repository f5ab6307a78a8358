package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/device"
)

// NewEngine opens the device that --device names, "" for the CPU. The error lists those
// that can hold a model.
func NewEngine(name string, threads int) (*device.Engine, error) {
	o := device.Options{Threads: threads}
	if name != "" {
		d, err := modelDevice(name)
		if err != nil {
			return nil, fmt.Errorf("--device %s: %w", name, err)
		}
		o.Layout = device.On(d)
	} else {
		hintUnusedGPU()
	}
	return device.New(o)
}

// modelDevice finds a device that can hold a model. Accelerators cannot: they compute some
// products for the CPU, as BLAS does.
func modelDevice(name string) (*ggml.Device, error) {
	devices, err := ggml.Devices()
	if err != nil {
		return nil, err
	}
	fault := "there is none of this name"
	var names []string
	for _, d := range devices {
		isNamed, isAccelerator := strings.EqualFold(d.Name(), name), d.Type() == ggml.Accelerator
		switch {
		case isNamed && !isAccelerator:
			return d, nil
		case isNamed:
			fault = "it works beside the CPU and holds no model"
		case !isAccelerator:
			names = append(names, d.Name())
		}
	}
	slices.Sort(names)
	return nil, fmt.Errorf("%s; the devices of this machine are %s", fault, strings.Join(names, ", "))
}
