//go:build ignore

// This program writes the registries of the public packages' exports, and of the package of faults.
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
