//go:build !linux && !darwin

package mapped

import (
	"errors"
	"os"
)

// mapFile fails: the file is read instead.
func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) {}

func dropResident([]byte) {}
