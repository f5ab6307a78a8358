package filelink

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A text is added whole, or not at all.
func TestAppendToFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16k"); err != nil {
		t.Skip("a small file system cannot be mounted here: ", err)
	}
	defer func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) }()
	path := filepath.Join(disk, "log")
	require.NoError(t, Append(path, []byte("one\n")))
	require.NoError(t, Append(path, []byte("two\n")))
	require.EqualError(t, Append(path, bytes.Repeat([]byte("a"), 1<<20)), "write "+path+": no space left on device")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(text))
	require.NoError(t, Append(path, []byte("three\n")))
}
