package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// CUDADevices lists the NVIDIA GPUs. [Device.Description] returns a GPU's name, [Device.Properties]
// its memory sizes, [Device.BufferType] its memory, and [Device.HostBufferType] pinned system
// memory. Without the CUDA backend it fails with [ErrNotLoaded] and says how to install it. A
// program built with the tag cuda requires at least one GPU at start. C:
// ggml_backend_cuda_get_device_count, ggml_backend_cuda_get_device_description,
// ggml_backend_cuda_get_device_memory, ggml_backend_cuda_buffer_type,
// ggml_backend_cuda_host_buffer_type, ggml_backend_cuda_reg.
func CUDADevices() ([]*Device, error) { return backendDevices("CUDA") }

// NewCUDABackend opens the NVIDIA GPU with the given number, from 0. C: ggml_backend_cuda_init.
func NewCUDABackend(device int) (*Backend, error) { return newNumberedBackend("CUDA", device) }

// IsCUDA reports whether the backend is on an NVIDIA GPU. C: ggml_backend_is_cuda.
func (b *Backend) IsCUDA() bool { return b.isOf("CUDA") }

// PinForCUDA pins memory of the program, which makes copies from and to NVIDIA GPUs faster, until
// unpin is called. It requires GGML_CUDA_REGISTER_HOST=1 in the environment of the program. C:
// ggml_backend_cuda_register_host_buffer, ggml_backend_cuda_unregister_host_buffer.
func PinForCUDA(memory []byte) (unpin func(), err error) {
	devices, err := CUDADevices()
	if err != nil {
		return nil, err
	}
	if len(memory) == 0 {
		return func() {}, nil
	}
	reg, start := devices[0].Registry().r, unsafe.SliceData(memory)
	pinner := &runtime.Pinner{}
	pinner.Pin(start)
	if !bool(C.goggml_cuda_register_host(reg, unsafe.Pointer(start), C.size_t(len(memory)))) {
		pinner.Unpin()
		return nil, fmt.Errorf("ggml: CUDA: %d bytes of memory cannot be pinned; set GGML_CUDA_REGISTER_HOST=1 in the environment", len(memory))
	}
	return func() {
		C.goggml_cuda_unregister_host(reg, unsafe.Pointer(start))
		pinner.Unpin()
	}, nil
}
