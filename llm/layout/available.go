package layout

import (
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/limits"
)

// Available returns the memory that each device can still provide: what the device reports, and [AvailableHostMemory]
// for the CPU. A device that reports nothing counts as unlimited.
//
// CPU memory is used once it is written to: allocated but unwritten memory, and mapped files, still count as available.
func (p Places) Available() Sizes {
	if len(p.Devices) == 0 { // a zero value
		return nil
	}
	return append(freeMemory(p.Devices[:len(p.Devices)-1]), AvailableHostMemory())
}

// freeMemory returns the free memory of devices other than the CPU.
func freeMemory(devices []*ggml.Device) Sizes {
	var sizes Sizes
	for _, d := range devices {
		sizes = append(sizes, FreeMemory(d))
	}
	return sizes
}

// FreeMemory returns the free memory that a device other than the CPU reports, or a practically unlimited amount if it
// reports none.
func FreeMemory(d *ggml.Device) int64 {
	p := d.Properties()
	if p.MemoryTotal == 0 {
		return math.MaxInt64
	}
	return p.MemoryFree
}

// AvailableHostMemory returns the number of bytes that the system can still give to programs. On Linux it is
// MemAvailable, which includes the page cache of files and mapped models, limited by the process's control groups (a
// container's) and limits (ulimit). Elsewhere it is the total memory that ggml reports.
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
