package main

import (
	"runtime"
	"syscall"
)

// A process that asks to be told of its parent's death is told of that of the thread that started it: so the main
// goroutine, which starts all, keeps its thread.
func init() { runtime.LockOSThread() }

func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
