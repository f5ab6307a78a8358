//go:build !unix

package filelink

import (
	"errors"
	"os"
)

func descriptor(string) int { return -1 }

func openDescriptor(int) (*os.File, error) { return nil, errors.ErrUnsupported }
