//go:build !cgo && !windows

// A build without cgo ends here with one message: the different package name makes the go command
// refuse the package before it compiles anything.
package ggml_needs_cgo__install_a_C_compiler_and_set_CGO_ENABLED_1
