//go:build !linux && !darwin

package filelock

import (
	"errors"
	"os"
)

// ErrLocked is the refusal of a lock that another open file has.
var ErrLocked = errors.New("the file is locked")

// Lock fails, and so nothing is taken for abandoned.
func Lock(*os.File) error { return errors.ErrUnsupported }
