//go:build unix

package dashboard

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nothing waits for metrics that are a pipe.
func TestPipe(t *testing.T) {
	folder := t.TempDir()
	makeRun(t, filepath.Join(folder, "run"), 2)
	metrics := filepath.Join(folder, "run", "metrics.jsonl")
	require.NoError(t, os.Remove(metrics))
	require.NoError(t, syscall.Mkfifo(metrics, 0o600))
	_, get := serve(t, DefaultAddress, folder)
	rows, faults := list(t, get)
	require.Len(t, rows, 1)
	require.Empty(t, faults)
	r, _ := get("/metrics.jsonl?name=run")
	require.Equal(t, 404, r.StatusCode)
}
