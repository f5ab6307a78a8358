//go:build !linux && !darwin

package ggml

import (
	"errors"
	"os"
)

// mapFile fails: the file is read instead.
func mapFile(*os.File, int64, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) {}
