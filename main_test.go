package ggml_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/goggml/ggml/internal/testutil"
)

func TestMain(m *testing.M) {
	serveIfAsked()
	testutil.Main(tests{m})
}

// tests close what they share. After the end of a test the only thing that still
// closes what it left open is the garbage collector, with a warning.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	closeMachines()
	for range 3 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	return code
}
