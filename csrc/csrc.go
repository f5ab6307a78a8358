// Package csrc contains the C half of the binding: the shims around ggml.
//
// The C files are compiled into package ggml, whose csrc.c includes them. This package contains no
// code; it makes the files visible to Go's tools: importing it makes "go mod vendor" copy them, and
// embedding them makes a change in one of them rebuild package ggml.
package csrc

import "embed"

//go:embed *.c *.h
var sources embed.FS

// Files returns the C sources, for tests that check them.
func Files() embed.FS { return sources }
