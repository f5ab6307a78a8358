//go:build unix

package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckOutputs(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, os.WriteFile(in("text"), nil, 0o600))
	require.NoError(t, os.Mkdir(in("sub"), 0o700))
	require.NoError(t, os.Symlink(in("sub"), in("link")))
	require.NoError(t, os.Symlink(in("text"), in("text-link")))
	check := func(outputs ...string) error {
		var files []File
		for i, path := range outputs {
			files = append(files, File{Flag: []string{"--first", "--second"}[i], Path: path})
		}
		return CheckOutputs([]File{{Flag: "--in", Path: in("text")}, {Flag: "--none"}}, files)
	}
	longest := strings.Repeat("x", 255)
	for _, good := range [][]string{
		{""}, {in("a"), in("b")}, {in("a"), in("sub/a")}, {in("a"), ""}, {in(longest)}, {in("link/" + longest)}, {os.DevNull, os.DevNull},
	} {
		require.NoError(t, check(good...), good)
	}
	for want, bad := range map[string][]string{
		"--first " + in("text-link") + " is the file of --in too; give it another name":                        {in("text-link")},
		"--second " + in("link/a") + " is the file of --first too; give it another name":                       {in("sub/a"), in("link/a")},
		"--second " + in("sub/../a") + " is the file of --first too; give it another name":                     {in("a"), in("sub/../a")},
		"--first " + in(longest+"x") + " cannot be written: file name too long":                                {in(longest + "x")},
		"--first " + in("sub") + " cannot be written: it is a folder":                                          {in("sub")},
		"--first " + in("none/a") + " cannot be written: folder " + in("none") + ": no such file or directory": {in("none/a")},
	} {
		require.EqualError(t, check(bad...), want)
	}
	var names []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, filepath.Base(path))
		return err
	}))
	require.ElementsMatch(t, []string{filepath.Base(folder), "link", "sub", "text", "text-link"}, names, "the check leaves nothing behind")
}

func TestReadText(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, os.WriteFile(in("a"), []byte("one"), 0o600))
	require.NoError(t, os.WriteFile(in("b"), []byte("two\n"), 0o600))
	require.NoError(t, syscall.Mkfifo(in("pipe"), 0o600))
	text, err := ReadText(in("a"), in("b"), in("a"))
	require.NoError(t, err)
	require.Equal(t, "onetwo\none", text)
	for path, want := range map[string]string{
		in("none"):  "open " + in("none") + ": no such file or directory",
		folder:      folder + " is a folder; name the files in it",
		in("pipe"):  in("pipe") + " is a pipe or a device; write its text into a file",
		"/dev/zero": "/dev/zero is a pipe or a device; write its text into a file",
	} {
		_, err := ReadText(in("a"), path)
		require.EqualError(t, err, want)
	}
}
