//go:build unix

package filelink_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/test/need"
)

// Read never waits for a pipe, reads a device, or reads more than its limit.
func TestRead(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("file", []byte("four"), 0o600))
	require.NoError(t, os.WriteFile("sparse", nil, 0o600))
	require.NoError(t, os.Truncate("sparse", 1<<40))
	require.NoError(t, os.Mkdir("folder", 0o700))
	require.NoError(t, syscall.Mkfifo("pipe", 0o600))
	require.NoError(t, os.Symlink("/dev/zero", "zero"))
	require.NoError(t, os.Symlink("pipe", "to-pipe"))
	require.NoError(t, os.Symlink("file", "to-file"))
	for _, path := range []string{"file", "to-file"} {
		text := need.Value(filelink.Read(path, 4))(t)
		require.Equal(t, "four", string(text))
	}
	for path, want := range map[string]string{
		"file":    "read file: it is larger than 3 bytes",
		"sparse":  "read sparse: it is larger than 3 bytes",
		"folder":  "open folder: it is a folder; name the file in it",
		"pipe":    "open pipe: it is a pipe or a device; name a regular file",
		"to-pipe": "open to-pipe: it is a pipe or a device; name a regular file",
		"zero":    "open zero: it is a pipe or a device; name a regular file",
		"none":    "open none: no such file or directory",
	} {
		_, err := filelink.Read(path, 3)
		require.EqualError(t, err, want)
	}
}
