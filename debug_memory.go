package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// DeviceMemory is the memory of a device in bytes; see [MemoryReport].
type DeviceMemory struct {
	Device  *Device
	Free    int64 // free for all programs, as the driver reports; 0 if unknown
	Total   int64 // total; 0 if the driver does not report it
	Weights int64 // in open buffers with [UsageWeights]
	Compute int64 // in open buffers with [UsageCompute], graph allocators, schedulers and [RegisterScratchMemory]
	Other   int64 // in other open buffers
}

// MemoryReport returns the memory of each device, and how much of it this program holds in open
// [Buffer], [GraphAllocator], [Scheduler] and [Optimizer] objects. An allocator counts with the
// memory of its last Allocate or Reserve; the report waits for no computation. A mapped file counts
// as a buffer, and scratch memory of ops counts as [RegisterScratchMemory] reports it. Safe for
// concurrent use. C: ggml_backend_dev_memory.
func MemoryReport() ([]DeviceMemory, error) {
	devices, err := Devices()
	if err != nil {
		return nil, err
	}
	var report []DeviceMemory
	at := map[C.ggml_backend_dev_t]int{}
	entry := func(d *Device) *DeviceMemory {
		i, found := at[d.d]
		if !found {
			i = len(report)
			at[d.d] = i
			p := d.Properties()
			report = append(report, DeviceMemory{Device: d, Free: p.MemoryFree, Total: p.MemoryTotal})
		}
		return &report[i]
	}
	for _, d := range devices {
		entry(d)
	}
	for _, u := range memory.uses() {
		device := &Device{u.device}
		if u.device == nil {
			if device, err = DeviceByType(CPU); err != nil {
				return nil, err
			}
		}
		entry(device).count(u)
	}
	return report, nil
}

func (m *DeviceMemory) count(u memoryUse) {
	switch u.usage {
	case UsageWeights:
		m.Weights += u.bytes
	case UsageCompute:
		m.Compute += u.bytes
	default:
		m.Other += u.bytes
	}
}

// String returns the report of a device as one line.
func (m DeviceMemory) String() string {
	name := "no device"
	if m.Device != nil {
		name = m.Device.Name()
	}
	var parts []string
	if m.Total > 0 {
		parts = append(parts, fmt.Sprintf("%s free of %s", byteCount(m.Free), byteCount(m.Total)))
	}
	parts = append(parts, fmt.Sprintf("weights %s, compute %s, other %s", byteCount(m.Weights), byteCount(m.Compute), byteCount(m.Other)))
	return name + ": " + strings.Join(parts, "; ")
}

// byteCount formats a size with three digits and a binary prefix.
func byteCount(n int64) string {
	x := float64(n)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if x < 1000 {
			return fmt.Sprintf("%.3g %s", x, unit)
		}
		x /= 1024
	}
	return fmt.Sprintf("%.3g TiB", x)
}

// A memoryUse is an amount of memory that an object holds on a device; a nil device means system
// memory.
type memoryUse struct {
	device C.ggml_backend_dev_t
	usage  Usage
	bytes  int64
}

func bufferUse(b C.ggml_backend_buffer_t) memoryUse {
	return memoryUse{
		device: deviceOf(C.ggml_backend_buffer_get_type(b)),
		usage:  Usage(C.ggml_backend_buffer_get_usage(b)),
		bytes:  int64(C.ggml_backend_buffer_get_size(b)),
	}
}

// deviceOf returns the device of a buffer type, or nil for ordinary memory, which has no device in
// ggml.
func deviceOf(bt C.ggml_backend_buffer_type_t) C.ggml_backend_dev_t {
	return C.ggml_backend_buft_get_device(bt)
}

// memory lists the open objects that hold memory. Its entries must not refer to their owners, see
// contextCore.
var memory memoryTable

type memoryTable struct {
	holders sync.Map // *handle to func() []memoryUse

	mu      sync.Mutex
	scratch []func() int64
}

// RegisterScratchMemory counts memory that ops of another package keep between computations, in
// bytes, as Compute of the CPU. Each report calls bytes, possibly from several goroutines at once.
// Plumbing, for authors of ops, see [NativeOp].
func RegisterScratchMemory(bytes func() int64) {
	memory.mu.Lock()
	defer memory.mu.Unlock()
	memory.scratch = append(memory.scratch, bytes)
}

func (t *memoryTable) track(h *handle, uses func() []memoryUse) { t.holders.Store(h, uses) }
func (t *memoryTable) forget(h *handle)                         { t.holders.Delete(h) }

func (t *memoryTable) uses() []memoryUse {
	var all []memoryUse
	t.holders.Range(func(key, value any) bool {
		h := key.(*handle)
		if h.acquire() == nil {
			all = append(all, value.(func() []memoryUse)()...)
			h.release()
		}
		return true
	})
	t.mu.Lock()
	scratch := slices.Clone(t.scratch)
	t.mu.Unlock()
	for _, bytes := range scratch {
		all = append(all, memoryUse{usage: UsageCompute, bytes: bytes()})
	}
	return all
}

// FreeOSMemory collects Go's garbage, and returns as much free memory of Go and C as possible to
// the system. It takes milliseconds or longer. C: malloc_trim.
func FreeOSMemory() {
	debug.FreeOSMemory()
	C.goggml_trim()
}
