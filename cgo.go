package ggml

// Where the C compiler and the linker find ggml: in ggml/, if scripts/vendor had to put it there, else in the
// system's default places; on macOS wherever Homebrew has it. The old kind of run path (DT_RPATH) is asked for
// because it also holds for the libraries that the plugins pull in. The plugins' own dependencies need not be
// there at link time.

// #cgo linux CFLAGS: -I${SRCDIR}/ggml/include
// #cgo linux LDFLAGS: -L${SRCDIR}/ggml/lib -Wl,-rpath,${SRCDIR}/ggml/lib
// #cgo linux LDFLAGS: -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined
// #cgo linux LDFLAGS: -lggml -lggml-base -lm
// #cgo darwin pkg-config: ggml
// #cgo darwin LDFLAGS: -lggml-base
// #include "csrc/check.h"
import "C"
