package device_test

import (
	"log"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// Hold twenty layers on a GPU, and the rest, which does not fit there, on the CPU.
func ExampleLayout() {
	gpu, err := ggml.DeviceByType(ggml.GPU)
	if err != nil {
		log.Fatal(err)
	}
	layout := device.Layout{Devices: []*ggml.Device{gpu}, Of: func(layer int, _ string) int {
		if layer >= 0 && layer < 20 {
			return 0
		}
		return 1 // the CPU, which is always the last
	}}
	m, err := model.Load("model.gguf", model.LoadOptions{Layout: layout})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	s, err := infer.NewSession(m, infer.SessionOptions{}) // and keys and values of a layer beside it
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}
