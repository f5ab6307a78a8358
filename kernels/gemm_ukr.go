package kernels

// #include "gemm_ukr.h"
import "C"

// A microKernel multiplies panels of integers of some bits by some instructions, for tests.
type microKernel struct {
	instructions string
	bits         int
	multiply     C.kern_ukr
}

// microKernels returns the micro-kernels that the processor can execute, whatever ONEDNN_MAX_CPU_ISA allows.
func microKernels() []microKernel {
	var list [C.KERN_UKRS]C.struct_kern_ukrs
	var found []microKernel
	for _, k := range list[:C.kern_list_ukrs(&list[0])] {
		found = append(found, microKernel{C.GoString(k.name), 16, k.i16})
		if k.i8 != nil {
			found = append(found, microKernel{C.GoString(k.name), 8, k.i8})
		}
	}
	return found
}

// product returns the product of panels, A [steps, 32] and B [steps, 12], in steps of four 8-bit or two 16-bit integers,
// plus first: [12, 32]. In 8 bits A is biased by 128.
func (k microKernel) product(a, b []uint32, first [C.KERN_NR]int32) []float32 {
	return k.multiplied(1, a, b, first)
}

// repeat computes the product a number of times.
func (k microKernel) repeat(times int, a, b []uint32) { k.multiplied(times, a, b, [C.KERN_NR]int32{}) }

func (k microKernel) multiplied(times int, a, b []uint32, first [C.KERN_NR]int32) []float32 {
	c := make([]float32, C.KERN_MR*C.KERN_NR)
	C.kern_multiply_panels(k.multiply, C.int64_t(len(a)/C.KERN_MR), (*C.uint32_t)(&a[0]), (*C.uint32_t)(&b[0]), (*C.int32_t)(&first[0]), (*C.float)(&c[0]), C.int64_t(times))
	return c
}
