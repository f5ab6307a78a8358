package cli

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/device"
)

// NewEngine opens the device that --device names, "" for the CPU. The error lists those
// that there are.
func NewEngine(name string, threads int) (*device.Engine, error) {
	o := device.Options{Threads: threads}
	if name != "" {
		var err error
		if o.Device, err = ggml.DeviceByName(name); err != nil {
			return nil, fmt.Errorf("--device: %w", err)
		}
	}
	return device.New(o)
}
