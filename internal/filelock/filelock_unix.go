//go:build linux || darwin

package filelock

import (
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked is the refusal of a lock that another open file has, in this process
// or another.
var ErrLocked error = unix.EWOULDBLOCK

// Lock locks the file until it is closed, or fails at once. Some file systems
// have no locks.
func Lock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
