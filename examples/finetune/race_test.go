//go:build race

package main

import (
	"testing"

	"github.com/goggml/ggml/examples/internal/clitest"
)

// Scripts for the race detector: runs, a continued run, and a run with a dashboard. It runs no other scripts:
// they check what programs reject, print or write, and a process takes four times as long under it.
func TestRacingScripts(t *testing.T) {
	p := scripts(t)
	p.Dir = ""
	for _, name := range []string{"dashboard", "resume", "run"} {
		p.Files = append(p.Files, "testdata/script/"+name+".txtar")
	}
	clitest.RunScripts(t, p)
}
