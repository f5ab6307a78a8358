//go:build linux && cgo

package calls

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

var (
	calls = flag.Int("calls", 3000, "how many calls to make")
	seed  = flag.Uint64("seed", 1, "the seed of them")
	only  = flag.String("only", "", "call only what begins with this")
	stop  = flag.Bool("stop", false, "end at the first finding")
)

const workerVariable = "GOGGML_CALLS_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) == "" {
		os.Exit(m.Run())
	}
	flag.Parse()
	ggml.SetLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	limit := &syscall.Rlimit{Cur: 24 << 30, Max: 24 << 30}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, limit); err != nil {
		panic(err)
	}
	if err := run(*seed, *calls, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Nothing that is exported ends the process, panics without a word in its documentation, waits
// for ever, or leaves something open, whatever it is called with.
func TestCalls(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-calls", fmt.Sprint(*calls), "-seed", fmt.Sprint(*seed), "-only", *only)
	cmd.Env = append(os.Environ(), workerVariable+"=1", "OMP_WAIT_POLICY=passive")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	require.NoError(t, err, "the process died:\n%s\n%s", tail(out.String(), 3000), tail(errs.String(), 6000))
	require.NotContains(t, out.String(), "\nfinding ", tail(out.String(), 3000))
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// The registry is that of the present sources.
func TestRegistry(t *testing.T) {
	want, err := Registry("../../..")
	require.NoError(t, err)
	got, err := os.ReadFile("registry_test.go")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "go generate ./internal/fuzz/calls writes it anew")
	require.Greater(t, strings.Count(string(got), "TypeFor"), 100)
}
