package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// A NUMAStrategy selects how threads are spread over the memory nodes of a large machine. C: enum
// ggml_numa_strategy.
type NUMAStrategy int

// The strategies.
const (
	NUMADisabled   NUMAStrategy = C.GGML_NUMA_STRATEGY_DISABLED
	NUMADistribute NUMAStrategy = C.GGML_NUMA_STRATEGY_DISTRIBUTE // evenly over all nodes
	NUMAIsolate    NUMAStrategy = C.GGML_NUMA_STRATEGY_ISOLATE    // on the program's current node
	NUMACtl        NUMAStrategy = C.GGML_NUMA_STRATEGY_NUMACTL    // as set by the program numactl
	NUMAMirror     NUMAStrategy = C.GGML_NUMA_STRATEGY_MIRROR     // reserved by ggml
)

// CPURegistry returns the CPU plugin. C: ggml_backend_cpu_reg.
func CPURegistry() (*Registry, error) {
	d, err := DeviceByType(CPU)
	if err != nil {
		return nil, err
	}
	return d.Registry(), nil
}

// InitCPU prepares the tables of the CPU plugin, as loading the plugin does. Plumbing: programs
// rarely need it. C: ggml_cpu_init.
func InitCPU() error {
	r, err := CPURegistry()
	if err != nil {
		return err
	}
	if !bool(C.goggml_cpu_init(r.r)) {
		return fmt.Errorf("ggml: the CPU plugin of ggml %s does not export ggml_cpu_init", Version())
	}
	return nil
}

// IsCPU reports whether the backend computes on the processor.
// C: ggml_backend_is_cpu.
func (b *Backend) IsCPU() bool { return b.isOf("CPU") }

// InitNUMA prepares the CPU backends for a machine with several memory nodes. Call it once, before
// any computation; later calls only log a warning. C: ggml_numa_init.
func InitNUMA(s NUMAStrategy) error {
	if s < NUMADisabled || s >= C.GGML_NUMA_STRATEGY_COUNT {
		return fmt.Errorf("ggml: there is no NUMA strategy %d", s)
	}
	r, err := CPURegistry()
	if err != nil {
		return err
	}
	numa.Lock()
	defer numa.Unlock()
	if !bool(C.goggml_numa_init(r.r, C.enum_ggml_numa_strategy(s))) {
		return fmt.Errorf("ggml: the CPU plugin of ggml %s does not support NUMA", Version())
	}
	return nil
}

var numa sync.Mutex

// IsNUMA reports whether InitNUMA found several memory nodes. C: ggml_is_numa.
func IsNUMA() bool {
	r, err := CPURegistry()
	if err != nil {
		return false
	}
	numa.Lock()
	defer numa.Unlock()
	return bool(C.goggml_is_numa(r.r))
}

// A Feature is a capability that a backend uses, for example {"AVX2", "1"}. C: struct
// ggml_backend_feature.
type Feature struct{ Name, Value string }

// Features lists the features of the backend; nil if it reports none. C: ggml_backend_get_features
// of its plugin.
func (r *Registry) Features() []Feature {
	if r.isZero() {
		return nil
	}
	p := C.goggml_features(r.r)
	if p == nil {
		return nil
	}
	var features []Feature
	for ; p.name != nil; p = (*C.struct_ggml_backend_feature)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		features = append(features, Feature{C.GoString(p.name), C.GoString(p.value)})
	}
	return features
}

// CPUFeatures lists the instruction sets that the CPU plugin was built for, and its other
// properties. The plugin is chosen to suit the processor. [ReadCPUInfo] also lists the instruction
// sets that it was not built for.
func CPUFeatures() ([]Feature, error) {
	r, err := CPURegistry()
	if err != nil {
		return nil, err
	}
	return r.Features(), nil
}

// SetUseRef makes a CPU backend compute by the portable reference code instead of the code for the
// processor's instructions; slow, for comparisons. Plumbing: programs rarely need it. C:
// ggml_backend_cpu_set_use_ref.
func (b *Backend) SetUseRef(yes bool) error {
	b = made(b)
	leave, err := enter(b.h, &b.mu)
	if err != nil {
		return err
	}
	defer leave()
	if b.device.Type() != CPU || !bool(C.goggml_backend_set_use_ref(b.b, C.bool(yes))) {
		return fmt.Errorf("ggml: backend %s has no reference code; a CPU backend does", b.Name())
	}
	return nil
}
