package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"

	"github.com/goggml/ggml/internal/rpcrelay"
)

// A BufferType is a kind of memory: its device and its layout. It is valid for the life of the
// process, and safe for concurrent use. C: ggml_backend_buffer_type_t.
type BufferType struct{ b C.ggml_backend_buffer_type_t }

// isZero reports whether bt is nil or a zero value.
func (bt *BufferType) isZero() bool { return bt == nil || bt.b == nil }

// CPUBufferType returns ordinary memory. C: ggml_backend_cpu_buffer_type.
func CPUBufferType() *BufferType { return &BufferType{C.ggml_backend_cpu_buffer_type()} }

// Name returns the name of the buffer type. C: ggml_backend_buft_name.
func (bt *BufferType) Name() string {
	if bt.isZero() {
		return ""
	}
	return rpcrelay.DisplayName(C.GoString(C.ggml_backend_buft_name(bt.b)))
}

// Alignment returns the alignment of tensors in bytes. C: ggml_backend_buft_get_alignment.
func (bt *BufferType) Alignment() int64 {
	if bt.isZero() {
		return 0
	}
	return int64(C.ggml_backend_buft_get_alignment(bt.b))
}

// MaxSize returns the maximum size of a buffer in bytes. C: ggml_backend_buft_get_max_size.
func (bt *BufferType) MaxSize() int64 {
	if bt.isZero() {
		return 0
	}
	n := uint64(C.ggml_backend_buft_get_max_size(bt.b))
	return int64(min(n, maxBytes))
}

// IsHost reports whether the program can read the memory directly.
// C: ggml_backend_buft_is_host.
func (bt *BufferType) IsHost() bool { return !bt.isZero() && bool(C.ggml_backend_buft_is_host(bt.b)) }

// Device returns the device of the memory; the CPU for ordinary memory. C:
// ggml_backend_buft_get_device.
func (bt *BufferType) Device() (*Device, error) {
	if bt.isZero() {
		return nil, zeroError()
	}
	if d := deviceOf(bt.b); d != nil {
		return &Device{d}, nil
	}
	return DeviceByType(CPU)
}

// NewBuffer allocates a buffer of size bytes. C: ggml_backend_buft_alloc_buffer.
func (bt *BufferType) NewBuffer(size int64) (*Buffer, error) {
	if bt.isZero() {
		return nil, zeroError()
	}
	if size < 0 || size > bt.MaxSize() {
		return nil, fmt.Errorf("ggml: a buffer of %d bytes: %s holds 0 to %d", size, bt.Name(), bt.MaxSize())
	}
	r := C.goggml_buft_alloc(bt.b, C.size_t(size))
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: a buffer of %d bytes in %s: %w", size, bt.Name(), err)
	}
	if err := wrapDeviceErr(deviceOf(bt.b)); err != nil {
		if r.value != nil {
			released(C.goggml_buffer_free(C.ggml_backend_buffer_t(r.value)))
		}
		return nil, err
	}
	if r.value == nil {
		return nil, fmt.Errorf("ggml: a buffer of %d bytes in %s: %w%s; close something, or use a smaller model or batch",
			size, bt.Name(), ErrOutOfMemory, shortage(memoryUse{device: deviceOf(bt.b), bytes: size}))
	}
	return newBuffer(C.ggml_backend_buffer_t(r.value), nil)
}

// AllocSize returns the bytes that the tensors take in such memory, including padding. It exceeds
// the sum of their sizes if the device arranges data in a layout of its own. Views take none. C:
// ggml_backend_buft_get_alloc_size, ggml_backend_buft_get_alloc_size_n.
func (bt *BufferType) AllocSize(tensors ...*Tensor) (int64, error) {
	if bt.isZero() {
		return 0, during(zeroError())
	}
	list, release, err := retainTensors(tensors)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	defer release()
	r := C.goggml_buft_alloc_size(bt.b, &list[0], C.int(len(list)))
	if err := guardError(r.error); err != nil {
		return 0, tensors[0].errorf(nil, "%v", err)
	}
	return int64(r.value), nil
}

// room returns the bytes that a tensor takes. The caller retains the tensor.
func (bt *BufferType) room(t *Tensor) (int64, error) {
	r := C.goggml_buft_alloc_size(bt.b, &t.t, 1)
	if err := guardError(r.error); err != nil {
		return 0, t.errorf(nil, "%v", err)
	}
	return int64(r.value), nil
}

// paddedRoom returns the bytes of a tensor with padding for a tensor that follows it.
func (bt *BufferType) paddedRoom(t *Tensor) (int64, error) {
	n, err := bt.room(t)
	a := bt.Alignment()
	return (n + a - 1) / a * a, err
}
