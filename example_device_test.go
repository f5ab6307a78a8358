package ggml_test

import (
	"fmt"

	"github.com/goggml/ggml"
)

// An event marks a point in the work of an asynchronous device. The CPU is synchronous, and the
// error says so.
func ExampleEvent() {
	backend := must(ggml.NewCPUBackend(1))
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
			continue // skip other plugins
		}
		for _, d := range r.Devices() {
			fmt.Println(r.Name(), d.Name(), d.Type())
		}
	}
	// Output: CPU CPU CPU
}

// Three devices, here one device three times, share the columns of a weight.
func ExampleSplitTensorEvenly() {
	cpu := must(ggml.DeviceByType(ggml.CPU))
	all := must(ggml.NewMetaDevice(func(w *ggml.Tensor) ggml.TensorSplit {
		split := ggml.SplitTensorEvenly(w, ggml.TensorSplitAxis1, 1, 3)
		fmt.Println(w, split.Segments[0].Sizes)
		return split
	}, cpu, cpu, cpu))
	c := ggml.NewContext()
	defer c.Close()
	c.NewTensor(ggml.F32, 4, 10).SetName("weight")
	buffers := must(c.Allocate(all.BufferType()))
	defer buffers.Close()
	// Output:
	// weight f32[4, 10] [3 3 4]
}
