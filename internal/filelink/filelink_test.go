package filelink_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/test/need"
)

func TestTarget(t *testing.T) {
	folder := need.Value(filepath.EvalSymlinks(t.TempDir()))(t)
	t.Chdir(folder)
	require.NoError(t, os.MkdirAll("real/deep", 0o700))
	require.NoError(t, os.WriteFile("real/file", nil, 0o600))
	for link, to := range map[string]string{
		"to-file": "real/file", "to-new": "real/new", "to-link": "to-new", "to-folder": "real/deep",
		"real/up": "../new", "to-nowhere": "none/new", "loop": "pool", "pool": "loop", "absolute": filepath.Join(folder, "real/new"),
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Skip("links cannot be made here: ", err)
		}
	}
	require.NoError(t, os.Symlink("../up", "real/deep/upper"))
	for path, want := range map[string]string{
		"real/file": "real/file", "new": "new", "to-file": "real/file", "to-new": "real/new", "to-link": "real/new", "real/up": "new",
		"to-folder/new": "to-folder/new", "to-folder/upper": "new", "absolute": "real/new", "to-nowhere": "none/new", "none/new": "none/new",
	} {
		got, err := filelink.Target(path)
		require.NoError(t, err, path)
		got = need.Value(filepath.Abs(got))(t)
		require.Equal(t, filepath.Join(folder, want), got, path)
	}
	_, err := filelink.Target("loop")
	require.ErrorIs(t, err, syscall.ELOOP)
}

func TestMkdirAll(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("real", 0o700))
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	for link, to := range map[string]string{"to-new": "real/new", "to-far": "none/deep/new", "to-link": "to-last", "to-last": "last", "to-file": "file", "loop": "loop", "there": "real"} {
		if err := os.Symlink(to, link); err != nil {
			t.Skip("links cannot be made here: ", err)
		}
	}
	for path, want := range map[string]string{
		"plain/deep": "plain/deep", "to-new": "real/new", "to-far": "none/deep/new", "to-link/below": "last/below", "there": "real", "there/a/b": "real/a/b",
	} {
		require.NoError(t, filelink.MkdirAll(path, 0o777), path)
		require.DirExists(t, want)
		require.NoError(t, filelink.MkdirAll(path, 0o777), path)
	}
	require.ErrorIs(t, filelink.MkdirAll("loop", 0o777), syscall.ELOOP)
	require.ErrorContains(t, filelink.MkdirAll("to-file", 0o777), "mkdir to-file: not a directory")
	require.ErrorContains(t, filelink.MkdirAll("file/a", 0o777), "not a directory")
}
