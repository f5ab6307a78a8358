//go:build !linux && !darwin

package ggml

import (
	"errors"
	"os"
)

// mapFile fails, and the file is read instead.
func mapFile(*os.File, int64, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) {}

var errLocked = errors.New("the file is locked")

// lockFile fails, and so nothing is taken for abandoned.
func lockFile(*os.File) error { return errors.ErrUnsupported }
