package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// A run that was started with interrupts ignored, as a shell starts background jobs, continues when the
// terminal sends one.
func TestIgnoredInterrupt(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	run := folderRun(files, "run", "--adam-iter", "300", "--save-every", "0")
	c := exec.Command(shell, append([]string{"-c", `trap "" INT; exec "$@"`, "sh"}, run.Args...)...)
	c.Dir = files
	stderr := need.Value(c.StderrPipe())(t)
	require.NoError(t, c.Start())
	sent := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if !sent && strings.HasPrefix(lines.Text(), "step 0: validation") {
			sent = true
			require.NoError(t, c.Process.Signal(os.Interrupt))
		}
	}
	require.NoError(t, c.Wait())
	require.True(t, sent)
}
