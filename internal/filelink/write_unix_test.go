//go:build unix

package filelink_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/testhook"
)

// outputEnv is the path to which the test binary writes.
const outputEnv = "GOGGML_TEST_OUTPUT"

// A write to /dev/stdout goes to standard output, whatever that is; a file is appended to.
func TestWriteOpenFile(t *testing.T) {
	if path := os.Getenv(outputEnv); path != "" {
		if filelink.IsReplaced(path) {
			os.Exit(2)
		}
		os.Stdout.WriteString("before ")
		if errors.Join(filelink.Replace(path, []byte("text ")), filelink.Append(path, []byte("after"))) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	t.Chdir(t.TempDir())
	if _, err := os.Stat("/dev/stdout"); err != nil {
		t.Skip(err)
	}
	require.NoError(t, os.Symlink("/dev/stdout", "link"))
	self := need.Value(os.Executable())(t)
	for _, path := range []string{"/dev/stdout", "/dev/fd/1", "link"} {
		for name, redirect := range map[string]string{"a file": "> file", "the end of a file": ">> file", "a pipe": "| cat > file"} {
			require.NoError(t, os.WriteFile("file", []byte("old "), 0o600))
			c := exec.Command("sh", "-c", `"$0" -test.run='^TestWriteOpenFile$' `+redirect, self)
			c.Env = append(os.Environ(), outputEnv+"="+path)
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s to %s: %s", path, name, out)
			want := "before text after"
			if name == "the end of a file" {
				want = "old " + want
			}
			text := need.Value(os.ReadFile("file"))(t)
			require.Equal(t, want, string(text), "%s to %s", path, name)
		}
	}
}

// A pipe is written once it has a reader; the wait for a reader is limited.
func TestWritePipe(t *testing.T) {
	wait := testhook.PipeWait
	defer func() { testhook.PipeWait = wait }()
	t.Chdir(t.TempDir())
	require.NoError(t, syscall.Mkfifo("pipe", 0o600))
	require.NoError(t, os.Symlink("pipe", "link"))
	for _, write := range []func(path string, text []byte) error{filelink.Replace, filelink.Append} {
		testhook.PipeWait = 0
		require.EqualError(t, write("link", []byte("text")), "write link: nobody reads this pipe; start its reader first")
		testhook.PipeWait = wait
		reader := need.Value(os.OpenFile("pipe", os.O_RDONLY|syscall.O_NONBLOCK, 0))(t)
		require.NoError(t, write("link", []byte("text")))
		text := need.Value(io.ReadAll(reader))(t)
		require.Equal(t, "text", string(text))
		require.NoError(t, reader.Close())
	}
	info := need.Value(os.Lstat("pipe"))(t)
	require.NotZero(t, info.Mode()&os.ModeNamedPipe)
}

// A device is written directly, through links, too, and is not replaced.
func TestWriteDevice(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Symlink(os.DevNull, "null"))
	for _, path := range []string{os.DevNull, "null"} {
		require.NoError(t, filelink.Replace(path, []byte("text")))
		require.NoError(t, filelink.Append(path, []byte("text")))
		_, err := filelink.Pend(path, func(io.Writer) error { return nil })
		require.EqualError(t, err, "write "+path+": it is a pipe or a device; name a regular file")
		info := need.Value(os.Stat(path))(t)
		require.NotZero(t, info.Mode()&os.ModeCharDevice)
	}
	link := need.Value(os.Readlink("null"))(t)
	require.Equal(t, os.DevNull, link)
}
