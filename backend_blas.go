package ggml

// BLASDevice returns the BLAS library of the system as a device. It computes only matrix products,
// in system memory, and works beside the CPU in a [Scheduler]. Without the BLAS backend it fails
// with [ErrNotLoaded] and says how to install it. C: ggml_backend_blas_reg.
func BLASDevice() (*Device, error) {
	devices, err := backendDevices("BLAS")
	if err != nil {
		return nil, err
	}
	return devices[0], nil
}

// NewBLASBackend opens the BLAS library with the given number of threads; 0 means [DefaultThreads].
// A library with threads of its own has one thread count for the whole program: the last one set.
// C: ggml_backend_blas_init, ggml_backend_blas_set_n_threads.
func NewBLASBackend(threads int) (*Backend, error) {
	d, err := BLASDevice()
	if err != nil {
		return nil, err
	}
	return d.newWithThreads(threads)
}

// IsBLAS reports whether the backend is the BLAS library. C: ggml_backend_is_blas.
func (b *Backend) IsBLAS() bool { return b.isOf("BLAS") }
