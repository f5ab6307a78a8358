//go:build unix

package rss

import (
	"runtime"
	"syscall"
)

func maxrss() uint64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return uint64(usage.Maxrss) // bytes on macOS, KiB elsewhere
	}
	return uint64(usage.Maxrss) * 1024
}
