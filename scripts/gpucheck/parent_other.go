//go:build !linux

package main

import "syscall"

// Only Linux has it; elsewhere the parts of a killed run go on to their limit.
func dieWithParent(*syscall.SysProcAttr) {}
