package kernels

// A MicroKernel multiplies panels of integers.
type MicroKernel struct {
	Instructions string
	Bits         int
	Product      func(a, b []uint32, first [12]int32) []float32
	Repeat       func(times int, a, b []uint32) // computes a product many times
}

// MicroKernels returns those that the processor can execute.
func MicroKernels() []MicroKernel {
	var list []MicroKernel
	for _, k := range microKernels() {
		list = append(list, MicroKernel{k.instructions, k.bits, k.product, k.repeat})
	}
	return list
}
