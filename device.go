package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"math"
	"strings"

	"github.com/goggml/ggml/internal/rpcrelay"
	"github.com/goggml/ggml/internal/testhook"
)

// A DeviceType is a kind of device. C: enum ggml_backend_dev_type.
type DeviceType int

// The kinds of devices.
const (
	CPU           DeviceType = C.GGML_BACKEND_DEVICE_TYPE_CPU   // the processor, system memory
	GPU           DeviceType = C.GGML_BACKEND_DEVICE_TYPE_GPU   // a GPU with memory of its own
	IntegratedGPU DeviceType = C.GGML_BACKEND_DEVICE_TYPE_IGPU  // a GPU that uses system memory
	Accelerator   DeviceType = C.GGML_BACKEND_DEVICE_TYPE_ACCEL // works beside the CPU, like BLAS
	MetaDevice    DeviceType = C.GGML_BACKEND_DEVICE_TYPE_META  // several devices as one
)

// String returns the name of the kind.
func (t DeviceType) String() string {
	switch t {
	case CPU:
		return "CPU"
	case GPU:
		return "GPU"
	case IntegratedGPU:
		return "integrated GPU"
	case Accelerator:
		return "accelerator"
	case MetaDevice:
		return "meta"
	}
	return fmt.Sprintf("DeviceType(%d)", int(t))
}

// A Device computes and has memory. It stays valid for the life of the process, and is safe for
// concurrent use. C: ggml_backend_dev_t.
type Device struct{ d C.ggml_backend_dev_t }

// isZero reports whether d is nil or a zero value.
func (d *Device) isZero() bool { return d == nil || d.d == nil }

// Devices lists the devices of all loaded backends.
// C: ggml_backend_dev_count, ggml_backend_dev_get.
func Devices() ([]*Device, error) {
	if err := loadPlugins(); err != nil {
		return nil, err
	}
	registryLock.RLock()
	defer registryLock.RUnlock()
	var devices []*Device
	for i := range C.ggml_backend_dev_count() {
		d := &Device{C.ggml_backend_dev_get(i)}
		if !unlisted[d.d] && (!onlyCPU || d.Type() == CPU) {
			devices = append(devices, d)
		}
	}
	return devices, nil
}

// DeviceByName returns the device with a name such as "CPU" or "CUDA0"; the error lists all names.
// C: ggml_backend_dev_by_name.
func DeviceByName(name string) (*Device, error) {
	devices, err := Devices()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range devices {
		if strings.EqualFold(d.Name(), name) {
			return d, nil
		}
		names = append(names, d.Name())
	}
	return nil, fmt.Errorf("ggml: device %q: %w; the devices are %s", name, ErrNotLoaded, strings.Join(names, ", "))
}

// DeviceByType returns the first device of a kind. C: ggml_backend_dev_by_type.
func DeviceByType(t DeviceType) (*Device, error) {
	devices, err := Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		if d.Type() == t {
			return d, nil
		}
	}
	return nil, fmt.Errorf("ggml: no device of kind %v: %w%s", t, ErrNotLoaded, unloadedHint())
}

// Name returns the name of the device. C: ggml_backend_dev_name.
func (d *Device) Name() string {
	if d.isZero() {
		return ""
	}
	return C.GoString(C.ggml_backend_dev_name(d.d))
}

// Description describes the hardware. C: ggml_backend_dev_description.
func (d *Device) Description() string {
	if d.isZero() {
		return ""
	}
	return rpcrelay.DisplayName(strings.TrimSpace(C.GoString(C.ggml_backend_dev_description(d.d))))
}

// Type returns the kind of device. C: ggml_backend_dev_type.
func (d *Device) Type() DeviceType {
	if d.isZero() {
		return -1 // 0 is the CPU
	}
	return DeviceType(C.ggml_backend_dev_type(d.d))
}

// Registry returns the backend of the device. C: ggml_backend_dev_backend_reg.
func (d *Device) Registry() *Registry {
	if d.isZero() {
		return &Registry{}
	}
	return &Registry{C.ggml_backend_dev_backend_reg(d.d)}
}

// BufferType returns the device's own memory. C: ggml_backend_dev_buffer_type.
func (d *Device) BufferType() *BufferType {
	if d.isZero() {
		return nil
	}
	if m := metaOf(d.d); m != nil {
		return &BufferType{m.memory}
	}
	return &BufferType{C.ggml_backend_dev_buffer_type(d.d)}
}

// HostBufferType returns system memory from which the device copies fast, if the device has such
// memory. C: ggml_backend_dev_host_buffer_type.
func (d *Device) HostBufferType() (*BufferType, bool) {
	if d.isZero() {
		return nil, false
	}
	if b := C.ggml_backend_dev_host_buffer_type(d.d); b != nil {
		return &BufferType{b}, true
	}
	return nil, false
}

// DeviceProperties describes a device. C: struct ggml_backend_dev_props.
type DeviceProperties struct {
	Name, Description string
	Type              DeviceType
	ID                string // PCI bus id in lower case; "" if unknown
	MemoryFree        int64  // bytes
	MemoryTotal       int64  // bytes
	Async             bool   // computes and copies asynchronously
	HostBuffer        bool   // has a HostBufferType
	BufferFromHost    bool   // uses memory of the program in place
	Events            bool   // has events
}

// Properties returns the properties of the device; only its kind if the device is lost. C:
// ggml_backend_dev_get_props.
func (d *Device) Properties() DeviceProperties {
	if d.isZero() {
		return DeviceProperties{Type: d.Type()}
	}
	var p C.struct_ggml_backend_dev_props
	if guardError(C.goggml_dev_props(d.d, &p)) != nil {
		return DeviceProperties{Type: d.Type()}
	}
	id := ""
	if p.device_id != nil {
		id = C.GoString(p.device_id)
	}
	return DeviceProperties{
		Name:           C.GoString(p.name),
		Description:    rpcrelay.DisplayName(strings.TrimSpace(C.GoString(p.description))),
		Type:           DeviceType(p._type),
		ID:             id,
		MemoryFree:     int64(min(p.memory_free, math.MaxInt64)), // a server may report any number
		MemoryTotal:    int64(min(p.memory_total, math.MaxInt64)),
		Async:          bool(p.caps.async),
		HostBuffer:     bool(p.caps.host_buffer),
		BufferFromHost: bool(p.caps.buffer_from_host_ptr),
		Events:         bool(p.caps.events),
	}
}

func init() {
	testhook.RefuseAs = func(backend string) {
		if backend == "" {
			C.goggml_refuse_as(nil)
			return
		}
		C.goggml_refuse_as(C.CString(backend))
	}
	testhook.Lack = func(ops ...string) {
		if len(ops) == 0 {
			C.goggml_lack(nil)
			return
		}
		C.goggml_lack(C.CString(" " + strings.Join(ops, "  ") + " "))
	}
}

// SupportsOp reports whether the device computes the tensor's op for its types and shapes. It
// returns the device's own answer, except for ops known to end the process. C:
// ggml_backend_dev_supports_op, ggml_backend_supports_op.
func (d *Device) SupportsOp(t *Tensor) bool {
	var yes bool
	t.withRefs(func() { yes = !d.isZero() && bool(C.goggml_supports(d.d, t.t)) })
	return yes
}

// SupportsBufferType reports whether the device computes on tensors in such memory. C:
// ggml_backend_dev_supports_buft, ggml_backend_supports_buft.
func (d *Device) SupportsBufferType(bt *BufferType) bool {
	return !d.isZero() && !bt.isZero() && bool(C.ggml_backend_dev_supports_buft(d.d, bt.b))
}

// OffloadsOp reports whether the device would compute the tensor's op even if its weights lie in
// system memory and have to be copied, as for large batches. Plumbing: programs rarely need it. C:
// ggml_backend_dev_offload_op, ggml_backend_offload_op.
func (d *Device) OffloadsOp(t *Tensor) bool {
	var yes bool
	t.withRefs(func() { yes = !d.isZero() && bool(C.ggml_backend_dev_offload_op(d.d, t.t)) })
	return yes
}

// NewBackendByName opens the device with that name, see [DeviceByName]. C:
// ggml_backend_init_by_name.
func NewBackendByName(name string) (*Backend, error) {
	d, err := DeviceByName(name)
	if err != nil {
		return nil, err
	}
	return d.NewBackend()
}

// NewBackendByType opens the first device of a kind. C: ggml_backend_init_by_type.
func NewBackendByType(t DeviceType) (*Backend, error) {
	d, err := DeviceByType(t)
	if err != nil {
		return nil, err
	}
	return d.NewBackend()
}
