package kernels

// #include "gemm_ukr.h"
import "C"

import "github.com/goggml/ggml/internal/testhook"

func init() { testhook.MicroKernels = microKernels }

// microKernels returns the micro-kernels that the processor can execute, whatever ONEDNN_MAX_CPU_ISA allows, and emulated ones.
func microKernels() []testhook.MicroKernel {
	library() // oneDNN asks the system for AMX
	var list [C.KERN_UKRS]C.struct_kern_ukrs
	var found []testhook.MicroKernel
	for _, k := range list[:C.kern_list_ukrs(&list[0])] {
		found = append(found, microKernel(C.GoString(k.name), 16, k.i16, false, nil))
		if k.i8 != nil {
			found = append(found, microKernel(C.GoString(k.name), 8, k.i8, k.tiles != nil, k.tiles))
		}
	}
	if C.kern_gemm_emulated != nil {
		emulated := microKernel("emulated AMX-INT8", 8, C.kern_gemm_emulated, true, nil)
		emulated.Emulated = true
		found = append(found, emulated)
	}
	return found
}

func microKernel(name string, bits int, ukr C.kern_ukr, inTiles bool, config *C.struct_kern_tile_config) testhook.MicroKernel {
	multiplied := func(times int, a, b []uint32, first [C.KERN_NR]int32) []float32 {
		c := make([]float32, C.KERN_MR*C.KERN_NR)
		C.kern_multiply_panels(ukr, C.bool(inTiles), config, C.int64_t(len(a)/C.KERN_MR), (*C.uint32_t)(&a[0]), (*C.uint32_t)(&b[0]), (*C.int32_t)(&first[0]), (*C.float)(&c[0]), C.int64_t(times))
		return c
	}
	return testhook.MicroKernel{
		Instructions: name, Bits: bits,
		Product: func(a, b []uint32, first [C.KERN_NR]int32) []float32 { return multiplied(1, a, b, first) },
		Repeat:  func(times int, a, b []uint32) { multiplied(times, a, b, [C.KERN_NR]int32{}) },
	}
}
