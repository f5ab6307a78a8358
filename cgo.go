package ggml

// Where the C compiler and the linker find ggml: in ggml/ if scripts/vendor put it there, else in
// the system's default places; on macOS, where Homebrew has it. DT_RPATH, the old kind of run path,
// also applies to the libraries that plugins load. The dependencies of the plugins may be absent at
// link time.

// #cgo linux CFLAGS: -I${SRCDIR}/ggml/include
// #cgo linux LDFLAGS: -L${SRCDIR}/ggml/lib -Wl,-rpath,${SRCDIR}/ggml/lib
// #cgo linux LDFLAGS: -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined
// #cgo linux LDFLAGS: -lggml -lggml-base -lm
// #cgo darwin pkg-config: ggml
// #cgo darwin LDFLAGS: -lggml-base
// #include "csrc/check.h"
import "C"
