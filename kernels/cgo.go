package kernels

// Package ggml has the same flags; its cgo.go gives the reasons.

// #cgo linux CFLAGS: -I${SRCDIR}/../ggml/include
// #cgo linux LDFLAGS: -L${SRCDIR}/../ggml/lib -Wl,-rpath,${SRCDIR}/../ggml/lib
// #cgo linux LDFLAGS: -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined
// #cgo linux LDFLAGS: -lggml-base -lm
// #cgo darwin pkg-config: ggml
// #cgo darwin LDFLAGS: -lggml-base
// #include "chunks.h"
// #include "scratch.h"
import "C"

import (
	"unsafe"

	"github.com/goggml/ggml"
)

// C finds the parameters where kern.h says.
var _ = [1]struct{}{}[ggml.NativeParamsOffset-C.KERN_PARAMS_OFFSET]

func init() {
	C.kern_guard_chunks()
	// This excludes compiled code in oneDNN's own cache, whose size oneDNN does not report.
	ggml.RegisterScratchMemory(func() int64 { return int64(C.kern_scratch_bytes()) })
}

// params returns the bytes of a C struct, the parameters of an op.
func params[T any](p T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&p)), unsafe.Sizeof(p))
}
