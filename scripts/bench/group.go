package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// A process that asks for its parent's death signal gets it when the thread that started it ends,
// so the main goroutine keeps its thread.
func init() { runtime.LockOSThread() }

// ownGroup makes a command end with all that it has started when its context
// does, or when this program is killed.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(c.SysProcAttr)
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
