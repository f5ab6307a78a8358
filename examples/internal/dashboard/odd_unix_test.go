//go:build unix

package dashboard

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page shows all other runs, whatever stands in place of a file in one folder.
func TestOddFiles(t *testing.T) {
	for kind, make := range map[string]func(path string) error{
		"pipe":       func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"device":     func(path string) error { return os.Symlink("/dev/zero", path) },
		"folder":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a terabyte": func(path string) error { return writeSparse(path, 1<<40) },
		"zeros":      func(path string) error { return writeSparse(path, 3<<20) },
	} {
		folder := t.TempDir()
		makeRun(t, filepath.Join(folder, "good"), 2)
		names := []string{"manifest.json", "config.yaml", "commands.txt", "metrics.jsonl", "samples.jsonl"}
		for _, name := range names {
			path := filepath.Join(folder, "odd "+name)
			makeRun(t, path, 2)
			require.NoError(t, os.RemoveAll(filepath.Join(path, name)))
			require.NoError(t, make(filepath.Join(path, name)))
		}
		_, get := serve(t, DefaultAddress, folder)
		rows, faults := list(t, get)
		require.Len(t, rows, 1+len(names)-2, kind)
		require.Len(t, faults, 2, kind)
		require.Contains(t, strings.Join(faults, "\n"), filepath.Join("odd manifest.json", "manifest.json"), kind)
		require.Contains(t, strings.Join(faults, "\n"), filepath.Join("odd config.yaml", "config.yaml"), kind)
		for _, name := range names[2:] {
			for _, page := range []string{"/run.json", "/metrics.jsonl", "/samples.jsonl"} {
				r, _ := get(page + "?name=odd%20" + name)
				want := 200
				if page == "/metrics.jsonl" && name == "metrics.jsonl" && kind != "zeros" {
					want = 404
				}
				require.Equal(t, want, r.StatusCode, "%s: %s of odd %s", kind, page, name)
			}
		}
	}
}

// writeSparse writes a file of zeros that takes no disk space.
func writeSparse(path string, size int64) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(path, size)
}
