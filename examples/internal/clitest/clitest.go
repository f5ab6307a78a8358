// Package clitest has what the tests of several programs share.
package clitest

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/internal/testhook"
)

// openBLASTimeout is the variable that limits for how long waiting threads of OpenBLAS spin: by default for tens of
// milliseconds after a program has started.
const openBLASTimeout = "OPENBLAS_THREAD_TIMEOUT"

// Main is [testutil.Main] for tests that start programs: each name is a command
// of testscript and of package os/exec.
//
// A shell that runs the tests in the background ignores interrupts; the programs must not.
func Main(m *testing.M, programs map[string]func()) {
	name := filepath.Base(os.Args[0])
	if standIn := standIns[name]; standIn != nil {
		os.Exit(standIn(name, os.Args[1:]))
	}
	programs[serverProgram] = serveRPC
	os.Setenv(openBLASTimeout, "4") // the least
	if ops := strings.Fields(os.Getenv("GOGGML_TEST_LACK")); ops != nil {
		testhook.Lack(ops...) // pretend that devices lack these ops
	}
	_, isProgram := programs[name]
	if !isProgram && signal.Ignored(os.Interrupt) {
		interrupts := make(chan os.Signal, 1)
		signal.Notify(interrupts, os.Interrupt)
	}
	testscript.Main(testutil.Checked(m), programs)
}

// Stop runs a program and sends it a signal once a line of its standard error contains after. It requires that
// the signal ends the program (an interrupt: with exit code 130), and returns its standard error.
func Stop(t *testing.T, c *exec.Cmd, sig syscall.Signal, after string) string {
	t.Helper()
	stderr, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	var log strings.Builder
	sent := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		if !sent && strings.Contains(lines.Text(), after) {
			sent = true
			require.NoError(t, c.Process.Signal(sig))
		}
	}
	err = c.Wait()
	require.True(t, sent, log.String())
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, log.String())
	if sig == syscall.SIGKILL {
		require.Equal(t, sig, exit.Sys().(syscall.WaitStatus).Signal())
	} else {
		require.Equal(t, 130, exit.ExitCode(), log.String())
	}
	return log.String()
}
