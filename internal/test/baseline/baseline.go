// Package baseline repeats in plain C what benchmarks of package ggml do through the binding. The cost of the
// binding is the ratio of both in one run.
package baseline

// #cgo linux CFLAGS: -I${SRCDIR}/../../../ggml/include
// #cgo linux LDFLAGS: -L${SRCDIR}/../../../ggml/lib -Wl,-rpath,${SRCDIR}/../../../ggml/lib
// #cgo linux LDFLAGS: -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined
// #cgo linux LDFLAGS: -lggml -lggml-base -lm
// #cgo darwin pkg-config: ggml
// #cgo darwin LDFLAGS: -lggml-base
// #include "baseline.h"
// #include <stdlib.h>
import "C"

import "unsafe"

// Blocks is the number of blocks of four ops in a graph of 1,000 nodes.
const Blocks = 250

// BuildGraph n times creates a context with a graph of Blocks blocks, x ← x + silu(rms_norm(W x)), on operands
// of two contexts, and frees it. It returns the number of nodes.
func BuildGraph(n int) int { return int(C.baseline_build(C.int(n), Blocks)) }

// A Program is such a graph with allocated tensors, on one CPU thread.
type Program struct{ p *C.struct_baseline_program }

// NewProgram returns a program of blocks on W [size, size] and x [size, columns]. The CPU backend must be
// loaded.
func NewProgram(blocks, size, columns int) Program {
	return Program{C.baseline_new(C.int(blocks), C.int64_t(size), C.int64_t(columns))}
}

// Compute computes the graph n times.
func (p Program) Compute(n int) { C.baseline_compute(p.p, C.int(n)) }

// Close frees the program.
func (p Program) Close() { C.baseline_free(p.p) }

// ServeRPC serves the CPU by ggml's own server until the process ends. The plugins must be loaded.
func ServeRPC(endpoint string, threads int) {
	s := C.CString(endpoint)
	defer C.free(unsafe.Pointer(s))
	C.baseline_serve_rpc(s, C.int(threads))
}

// Allocate allocates n bytes with ggml's alignment; they are never freed.
func Allocate(n int) unsafe.Pointer { return C.aligned_alloc(32, C.size_t(n)) }

// Copy copies the bytes of src to dst with memcpy. Neither may be nil.
func Copy(dst, src []float32) {
	C.memcpy(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), C.size_t(4*min(len(dst), len(src))))
}
