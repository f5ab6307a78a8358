package device

import (
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/limits"
)

// AvailableMemory is how much memory the engine's devices can still give: what they report, and
// [AvailableHostMemory] of the CPU. A device that reports none is said to have any amount.
//
// That of the CPU is taken as it is written to: what is allocated and not written, and what is
// mapped from a file, is still available.
func (e *Engine) AvailableMemory() Sizes {
	if len(e.places.devices) == 0 { // of a zero value
		return nil
	}
	return append(freeMemory(e.places.devices[:len(e.places.devices)-1]), AvailableHostMemory())
}

// freeMemory is what devices other than the CPU report.
func freeMemory(devices []*ggml.Device) Sizes {
	var sizes Sizes
	for _, d := range devices {
		sizes = append(sizes, FreeMemory(d))
	}
	return sizes
}

// FreeMemory is what a device other than the CPU reports, and any amount where it reports none.
func FreeMemory(d *ggml.Device) int64 {
	p := d.Properties()
	if p.MemoryTotal == 0 {
		return math.MaxInt64
	}
	return p.MemoryFree
}

// AvailableHostMemory is how many bytes the system can still give programs. On Linux it is
// MemAvailable, which counts what is only cached from files, mapped models too; and no more
// than the control groups of the process leave, as those of a container, nor its limits, such as
// those of ulimit. Elsewhere it is what ggml reports: all memory that there is.
func AvailableHostMemory() int64 {
	if n, ok := limits.Memory(); ok {
		return n
	}
	cpu, err := ggml.DeviceByType(ggml.CPU)
	if err != nil {
		return 0
	}
	return cpu.Properties().MemoryFree
}
