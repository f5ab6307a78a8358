//go:build !linux && !darwin

package filelock

import (
	"errors"
	"os"
)

// ErrLocked reports that another open file has the lock.
var ErrLocked = errors.New("the file is locked")

// Lock returns an error, so no file is considered abandoned.
func Lock(*os.File) error { return errors.ErrUnsupported }
