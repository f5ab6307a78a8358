package testutil

import (
	"os/exec"
	"syscall"
)

// Command is exec.Command of a program that ends with this process, on Linux
// also when this is killed.
func Command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(c.SysProcAttr)
	return c
}
