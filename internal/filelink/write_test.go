package filelink_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/test/need"
)

func requireText(t *testing.T, want, path string) {
	t.Helper()
	text := need.Value(os.ReadFile(path))(t)
	require.Equal(t, want, string(text))
}

// A file is replaced completely or stays; its permissions and the links to it stay; no temporary file remains.
func TestWrite(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("real", 0o700))
	require.NoError(t, os.WriteFile("real/file", []byte("old"), 0o640))
	require.NoError(t, os.Symlink("real/file", "link"))
	long := strings.Repeat("n", 255)
	require.NoError(t, os.Symlink("real/"+long, "to-long"))

	failed := errors.New("failed")
	err := filelink.Write("link", func(w io.Writer) error {
		io.WriteString(w, "half")
		return failed
	})
	require.EqualError(t, err, "write link: failed")
	require.ErrorIs(t, err, failed)
	requireText(t, "old", "real/file")
	require.NoError(t, filelink.Replace("link", []byte("new")))
	requireText(t, "new", "real/file")
	info := need.Value(os.Lstat("real/file"))(t)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	require.NoError(t, filelink.Replace("to-long", []byte("long")))
	requireText(t, "long", "real/"+long)
	entries := need.Value(os.ReadDir("real"))(t)
	require.Len(t, entries, 2)

	require.EqualError(t, filelink.Replace("none/file", nil), "write none/file: no such file or directory")
	require.EqualError(t, filelink.Replace("real", nil), "write real: it is a folder; name the file in it")
	require.EqualError(t, filelink.Replace(long+"n", nil), "write "+long+"n: file name too long")
}

// Several files are all put in place, or none is.
func TestCommitAll(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a", []byte("old"), 0o600))
	pend := func() (files []*filelink.Pending) {
		for _, path := range []string{"a", "b", "c"} {
			f := need.Value(filelink.Pend(path, func(w io.Writer) error {
				_, err := io.WriteString(w, "new")
				return err
			}))(t)
			files = append(files, f)
		}
		return files
	}
	files := pend()
	require.NoError(t, os.MkdirAll("c/in the way", 0o700))
	require.EqualError(t, filelink.CommitAll(files), "write c: file exists")
	for _, f := range files {
		f.Discard()
	}
	requireText(t, "old", "a")
	names := need.Value(filepath.Glob("*"))(t)
	require.Equal(t, []string{"a", "c"}, names)
	require.NoError(t, os.RemoveAll("c"))
	require.NoError(t, filelink.CommitAll(pend()))
	for _, path := range []string{"a", "b", "c"} {
		requireText(t, "new", path)
	}
	names = need.Value(filepath.Glob("*"))(t)
	require.Equal(t, []string{"a", "b", "c"}, names)
}

// A path becomes another name of a file, through links, too, and even if it already is one.
func TestLink(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("file", []byte("text"), 0o600))
	require.NoError(t, os.WriteFile("other", []byte("old"), 0o600))
	require.NoError(t, os.Symlink("other", "link"))
	for range 2 {
		require.NoError(t, os.Link("file", "other.ABCDEFGH.tmp")) // of a process that was killed before it renamed its link
		require.NoError(t, filelink.Link("file", "link"))
		requireText(t, "text", "other")
		to := need.Value(os.Readlink("link"))(t)
		require.Equal(t, "other", to)
		names := need.Value(filepath.Glob("*"))(t)
		require.Equal(t, []string{"file", "link", "other"}, names)
	}
	require.EqualError(t, filelink.Link("none", "other"), "write other: no such file or directory")
}
