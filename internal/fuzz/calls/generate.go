//go:build ignore

// This program lists what the public packages export, and the faults of a package for tests.
package main

import (
	"os"

	"github.com/goggml/ggml/internal/fuzz/calls"
)

func main() {
	for file, text := range calls.Registries("../../..") {
		if err := os.WriteFile(file, text, 0o666); err != nil {
			panic(err)
		}
	}
}
