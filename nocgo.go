//go:build !cgo && !windows

// Building without cgo ends here, with one message: the other name makes the go command refuse the package
// before it compiles anything.
package ggml_needs_cgo__install_a_C_compiler_and_set_CGO_ENABLED_1
