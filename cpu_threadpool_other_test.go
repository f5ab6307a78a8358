//go:build !linux

package ggml_test

import "errors"

func threadStatus() (string, error) { return "", errors.ErrUnsupported }
