// Package testutil is what the tests of several packages share.
package testutil

import (
	"fmt"
	"os"
	"testing"

	"github.com/goggml/ggml"
)

// Main runs the tests of a package, and fails when they leave objects of
// package ggml open.
func Main(m *testing.M) { os.Exit(checked{m}.Run()) }

// checked tests fail when they leave objects open.
type checked struct{ *testing.M }

func (c checked) Run() int {
	code := c.M.Run()
	if open := ggml.OpenObjects(); code == 0 && len(open) > 0 {
		fmt.Fprintln(os.Stderr, "tests left objects open:", open)
		code = 1
	}
	return code
}
