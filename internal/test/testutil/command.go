package testutil

import (
	"os/exec"
	"syscall"
)

// Command returns exec.Command of a program that ends with this process; on Linux also if this process is
// killed.
func Command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(c.SysProcAttr)
	return c
}
