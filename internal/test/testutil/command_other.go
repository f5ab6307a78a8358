//go:build !linux

package testutil

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
