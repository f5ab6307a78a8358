package main

import (
	"testing"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/test/pages"
)

func TestPages(t *testing.T) {
	pages.CheckSection(t, "../../docs/flags.md", "pretrain", cli.New("pretrain", new(program), defaults.Vars()).Manual())
}
