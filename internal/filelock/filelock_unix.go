//go:build linux || darwin

package filelock

import (
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked reports that another open file, in this process or another, has the lock.
var ErrLocked error = unix.EWOULDBLOCK

// Lock locks the file until it is closed, or fails immediately. Some file systems have no locks.
func Lock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
