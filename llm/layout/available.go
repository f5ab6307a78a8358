package layout

import (
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/limits"
)

// Available is how much memory the devices can still give: what they report, and [AvailableHostMemory]
// of the CPU. A device that reports none is said to have any amount.
//
// CPU memory counts as used once it is written to: allocated and unwritten memory, and mapped
// files, are still available.
func (p Places) Available() Sizes {
	if len(p.Devices) == 0 { // of a zero value
		return nil
	}
	return append(freeMemory(p.Devices[:len(p.Devices)-1]), AvailableHostMemory())
}

// freeMemory returns the free memory that devices other than the CPU report.
func freeMemory(devices []*ggml.Device) Sizes {
	var sizes Sizes
	for _, d := range devices {
		sizes = append(sizes, FreeMemory(d))
	}
	return sizes
}

// FreeMemory returns the free memory that a device other than the CPU reports; if it reports none,
// a practically unlimited amount.
func FreeMemory(d *ggml.Device) int64 {
	p := d.Properties()
	if p.MemoryTotal == 0 {
		return math.MaxInt64
	}
	return p.MemoryFree
}

// AvailableHostMemory is how many bytes the system can still give programs. On Linux it is
// MemAvailable, which includes the page cache of files and mapped models, bounded by the process's
// control groups (a container's) and limits (ulimit). Elsewhere it is what ggml reports: all memory
// that there is.
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
