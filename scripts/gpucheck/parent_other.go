//go:build !linux

package main

import "syscall"

// dieWithParent needs Linux; elsewhere the parts of a killed run continue to their limit.
func dieWithParent(*syscall.SysProcAttr) {}
