//go:build ignore

// This program lists what the public packages export, in registry_test.go.
package main

import (
	"os"

	"github.com/goggml/ggml/internal/fuzz/calls"
)

func main() {
	text, err := calls.Registry("../../..")
	if err == nil {
		err = os.WriteFile("registry_test.go", text, 0o666)
	}
	if err != nil {
		panic(err)
	}
}
