//go:build !linux

package main

import "syscall"

// dieWithParent needs Linux; elsewhere the benchmarks of a killed run continue to their end, and write nothing.
func dieWithParent(*syscall.SysProcAttr) {}
