//go:build race

package main

import (
	"testing"

	"github.com/goggml/ggml/examples/internal/clitest"
)

// Scripts with runs, one that goes on and one that shows itself, for the race detector. The others are not run under it:
// a process takes four times as long with it, and they are about what a program refuses, prints or writes.
func TestRacingScripts(t *testing.T) {
	p := scripts(t)
	p.Dir = ""
	for _, name := range []string{"dashboard", "resume", "run"} {
		p.Files = append(p.Files, "testdata/script/"+name+".txtar")
	}
	clitest.RunScripts(t, p)
}
