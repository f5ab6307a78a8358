package ggml

// MetalDevices lists the Apple GPUs. Without the Metal backend it fails with
// [ErrNotLoaded] and says how to install it. A program built with the tag
// metal demands one at start. C: ggml_backend_metal_reg.
func MetalDevices() ([]*Device, error) { return backendDevices("MTL") }

// NewMetalBackend opens the Apple GPU. C: ggml_backend_metal_init.
func NewMetalBackend() (*Backend, error) { return newNumberedBackend("MTL", 0) }
