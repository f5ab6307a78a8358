package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// A process with a parent-death signal receives it when the thread that started the process ends, so the main
// goroutine keeps its thread.
func init() { runtime.LockOSThread() }

// ownGroup makes a command, and all that it has started, end with its context or when this program is killed.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(c.SysProcAttr)
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
