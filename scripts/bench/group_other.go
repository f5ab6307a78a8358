//go:build !linux

package main

import "syscall"

// Only Linux has it; elsewhere the benchmarks of a killed run go on to their
// end, and write nothing.
func dieWithParent(*syscall.SysProcAttr) {}
