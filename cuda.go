package ggml

// CUDADevices lists the NVIDIA GPUs. Without the CUDA backend it fails with
// [ErrNotLoaded] and says how to install it. A program built with the tag cuda
// demands at least one at start. C: ggml_backend_cuda_get_device_count.
func CUDADevices() ([]*Device, error) { return backendDevices("CUDA") }

// NewCUDABackend opens the NVIDIA GPU of that number, from 0.
// C: ggml_backend_cuda_init.
func NewCUDABackend(device int) (*Backend, error) { return newNumberedBackend("CUDA", device) }
