package ggml_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/goggml/ggml"
)

// TestMain fails when a test leaves an object open: after a test's end the
// only thing that still closes it is the garbage collector, with a warning.
func TestMain(m *testing.M) {
	serveIfAsked()
	code := m.Run()
	closeMachines()
	for range 3 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	if open := ggml.OpenObjects(); len(open) > 0 {
		fmt.Fprintln(os.Stderr, "tests left objects open:", open)
		code = max(code, 1)
	}
	os.Exit(code)
}
