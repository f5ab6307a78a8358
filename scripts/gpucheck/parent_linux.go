package main

import (
	"runtime"
	"syscall"
)

// A process that asks for its parent's death signal gets it when the thread that started it ends, so the main
// goroutine, which starts all processes, keeps its thread.
func init() { runtime.LockOSThread() }

func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
