package kernels

// #include <stdlib.h>
// #include "f16.h"
// #include "gemv.h"
// #include "library.h"
import "C"

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/computethread"
)

// loadPlugin loads ggml's plugins, and gets the routines of the CPU plugin. It ignores a plugin
// that cannot be loaded, because ops that need one report it; without its routines the kernels fall
// back to slower ones.
var loadPlugin = sync.OnceFunc(func() {
	symbol := func(string) unsafe.Pointer { return nil }
	if r, err := ggml.CPURegistry(); err == nil {
		symbol = r.Symbol
	}
	C.kern_f16_open(C.ggml_to_float_t(symbol("ggml_cpu_fp16_to_fp32")), C.ggml_from_float_t(symbol("ggml_cpu_fp32_to_fp16")))
	C.kern_gemv_open((*[0]byte)(symbol("ggml_get_type_traits_cpu")))
})

// library loads the GEMM library. ggml's plugins are loaded first: oneMKL interposes the cblas_*
// symbols globally, and ggml's BLAS plugin, loaded after it, would bind to it and run
// single-threaded.
var library = sync.OnceValues(func() (name string, err error) {
	loadPlugin()
	defer computethread.LimitBLASThreads()()
	switch path := os.Getenv("GOGGML_BLAS"); path {
	case "none":
	case "":
		C.kern_library_find()
	default:
		err = load(path)
	}
	return C.GoString(C.kern_library_name()), err
})

func load(path string) error {
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	var message [512]C.char
	if bool(C.kern_library_load(p, &message[0], C.size_t(len(message)))) {
		return nil
	}
	return fmt.Errorf("the GEMM library that GOGGML_BLAS names cannot be loaded: %s; name another file, or none, or unset it", C.GoString(&message[0]))
}

// GEMMLibrary describes the GEMM library in use: oneDNN on x86, else OpenBLAS, BLIS or another with
// the CBLAS interface, whose own threads are turned off for the whole process. The search runs
// once, at first use. The name is "" if no library is found: ops that use it are then composed of
// ggml's own, several times slower.
//
// The environment variable GOGGML_BLAS names the file of another library, or is none. If a file
// cannot be loaded, this function and every op that would use it fail. With oneDNN,
// ONEDNN_MAX_CPU_ISA limits the instructions used.
func GEMMLibrary() (name string, err error) { return library() }

// hasLibrary reports whether there is a GEMM library.
func hasLibrary() bool {
	name, _ := library()
	return name != ""
}

// requireLibrary requires that the library named by GOGGML_BLAS could be loaded.
func requireLibrary(b *ggml.OpBuilder) {
	if _, err := library(); err != nil {
		b.Require(false, "%s", err.Error())
	}
}

// HasBF16 reports whether GEMM supports BF16: with oneDNN on a processor with AVX512-BF16 or AMX.
func HasBF16() bool { return hasLibrary() && bool(C.kern_library_bf16()) }

// HasF16Accumulation reports whether GEMM can accumulate in F16: with oneMKL, which GOGGML_BLAS
// must name, on a processor with AVX512-FP16.
func HasF16Accumulation() bool { return hasLibrary() && bool(C.kern_library_f16()) }

// FastestType returns the type in which GEMM is fastest: BF16 with oneDNN on a processor with AMX,
// or on an AMD processor with AVX512-BF16; F16 if [HasF16Accumulation] is true; else F32. On an
// Intel processor with AVX512-BF16 but no AMX, BF16 takes up to twice as long.
func FastestType() ggml.Type {
	switch {
	case hasLibrary() && bool(C.kern_library_fast_bf16()):
		return ggml.BF16
	case HasF16Accumulation():
		return ggml.F16
	}
	return ggml.F32
}
