package kernels

// #include "gemm_ukr.h"
import "C"

import "github.com/goggml/ggml/internal/testhook"

func init() { testhook.MicroKernels = microKernels }

// microKernels returns the micro-kernels that the processor can execute, whatever ONEDNN_MAX_CPU_ISA allows.
func microKernels() []testhook.MicroKernel {
	var list [C.KERN_UKRS]C.struct_kern_ukrs
	var found []testhook.MicroKernel
	for _, k := range list[:C.kern_list_ukrs(&list[0])] {
		found = append(found, microKernel(k.name, 16, k.i16))
		if k.i8 != nil {
			found = append(found, microKernel(k.name, 8, k.i8))
		}
	}
	return found
}

func microKernel(name *C.char, bits int, multiply C.kern_ukr) testhook.MicroKernel {
	multiplied := func(times int, a, b []uint32, first [C.KERN_NR]int32) []float32 {
		c := make([]float32, C.KERN_MR*C.KERN_NR)
		C.kern_multiply_panels(multiply, C.int64_t(len(a)/C.KERN_MR), (*C.uint32_t)(&a[0]), (*C.uint32_t)(&b[0]), (*C.int32_t)(&first[0]), (*C.float)(&c[0]), C.int64_t(times))
		return c
	}
	return testhook.MicroKernel{
		Instructions: C.GoString(name), Bits: bits,
		Product: func(a, b []uint32, first [C.KERN_NR]int32) []float32 { return multiplied(1, a, b, first) },
		Repeat:  func(times int, a, b []uint32) { multiplied(times, a, b, [C.KERN_NR]int32{}) },
	}
}
