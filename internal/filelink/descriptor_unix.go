//go:build unix

package filelink

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// descriptor returns the descriptor of this process that a path such as /dev/stdout or /dev/fd/3 leads to, or
// -1. If it is a regular file, its contents stay, and writes append.
func descriptor(path string) int {
	own := fmt.Sprintf("/proc/%d/fd", os.Getpid())
	for range mostLinks {
		folder, err := filepath.EvalSymlinks(filepath.Dir(path))
		fd, notNumber := strconv.ParseUint(filepath.Base(path), 10, 31)
		if err == nil && notNumber == nil && (folder == own || folder == "/dev/fd") {
			return int(fd)
		}
		if path, err = readLink(path); err != nil {
			break
		}
	}
	return -1
}

// openDescriptor duplicates a descriptor, so that closing the copy leaves the original open.
func openDescriptor(fd int) (*os.File, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	other, err := syscall.Dup(fd)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(other)
	return os.NewFile(uintptr(other), fmt.Sprintf("/dev/fd/%d", fd)), nil
}
