package ggml

// #include "csrc/goggml.h"
import "C"

import "fmt"

// MetalDevices lists the Apple GPUs. Without the Metal backend it fails with [ErrNotLoaded] and
// says how to install it. A program built with the tag metal requires one at start. C:
// ggml_backend_metal_reg.
func MetalDevices() ([]*Device, error) { return backendDevices("MTL") }

// NewMetalBackend opens the Apple GPU. Like a CPU backend, it stops at the next node when a
// computation is cancelled. C: ggml_backend_metal_init, ggml_backend_metal_set_abort_callback.
func NewMetalBackend() (*Backend, error) { return newNumberedBackend("MTL", 0) }

// IsMetal reports whether the backend is on an Apple GPU. C: ggml_backend_is_metal.
func (b *Backend) IsMetal() bool { return b.isOf("MTL") }

// MetalFamily reports whether the backend's Apple GPU belongs to a feature family of Apple's Metal
// feature set tables: 7 means Apple7. C: ggml_backend_metal_supports_family.
func (b *Backend) MetalFamily(family int) (bool, error) {
	b = made(b)
	yes := false
	err := b.metal(func(reg C.ggml_backend_reg_t) bool {
		r := C.goggml_metal_supports_family(reg, b.b, C.int(family))
		yes = r.value == 1
		return guardError(r.error) == nil && r.value >= 0
	})
	return yes, err
}

// CaptureMetal makes the backend record its next computation for Xcode's GPU debugger. C:
// ggml_backend_metal_capture_next_compute.
func (b *Backend) CaptureMetal() error {
	b = made(b)
	return b.metal(func(reg C.ggml_backend_reg_t) bool {
		return bool(C.goggml_metal_capture_next_compute(reg, b.b))
	})
}

// metal runs f on an Apple GPU's backend. f reports whether the plugin has the function.
func (b *Backend) metal(f func(reg C.ggml_backend_reg_t) bool) error {
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	if !b.IsMetal() {
		return fmt.Errorf("ggml: %s: backend %s is not an Apple GPU: %w", outerCall().function, b.Name(), ErrNotLoaded)
	}
	unlock, err := lockBackends([]*Backend{b})
	if err != nil {
		return err
	}
	defer unlock()
	if !f(b.device.Registry().r) {
		return fmt.Errorf("ggml: %s: the Metal plugin of ggml %s has no such function", outerCall().function, Version())
	}
	return nil
}
