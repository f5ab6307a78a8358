package ggml

// BLASDevice is the BLAS library of the system, which computes products of
// matrices in system memory, and nothing else: it works beside the CPU in a
// [Scheduler]. Without the BLAS backend it fails with [ErrNotLoaded] and says
// how to install it. C: ggml_backend_blas_reg.
func BLASDevice() (*Device, error) {
	devices, err := backendDevices("BLAS")
	if err != nil {
		return nil, err
	}
	return devices[0], nil
}

// NewBLASBackend opens the BLAS library with that many threads; 0 stands for
// [DefaultThreads]. A library with threads of its own has one number of them
// for the whole program: that which was set last.
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
