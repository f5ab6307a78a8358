package filelink_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/test/need"
)

// On a full disk a text is appended completely or not at all, and a file is replaced completely or not at all.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16k"); err != nil {
		t.Skip("a small file system cannot be mounted here: ", err)
	}
	defer func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) }()
	path := filepath.Join(disk, "log")
	require.NoError(t, filelink.Append(path, []byte("one\n")))
	require.NoError(t, filelink.Append(path, []byte("two\n")))
	for _, write := range []func(path string, text []byte) error{filelink.Append, filelink.Replace} {
		require.EqualError(t, write(path, bytes.Repeat([]byte("a"), 1<<20)), "write "+path+": no space left on device")
		text := need.Value(os.ReadFile(path))(t)
		require.Equal(t, "one\ntwo\n", string(text))
	}
	require.NoError(t, filelink.Append(path, []byte("three\n")))
	entries := need.Value(os.ReadDir(disk))(t)
	require.Len(t, entries, 1)
}
