package main

import (
	"testing"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/merging"
	"github.com/goggml/ggml/internal/test/pages"
)

func TestPages(t *testing.T) {
	pages.CheckSection(t, "../../docs/flags.md", "export-lora", cli.New("export-lora", new(merging.Flags)).Manual())
}
