package main

import (
	"runtime"
	"syscall"
)

// A process with a parent-death signal receives it when the thread that started the process ends. So the main
// goroutine, which starts all processes, keeps its thread.
func init() { runtime.LockOSThread() }

func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
