package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// A background job stops when the terminal forbids it to write. In the foreground it continues, and ends with
// the result of an undisturbed run.
func TestJobControl(t *testing.T) {
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	need.Output(t, folderRun(files, "whole"))

	terminal, line := openTerminal(t)
	const script = `set -m; stty tostop; "$@" & 
		until grep -q '^State:.*stopped' /proc/$!/status; do kill -0 $! || break; sleep 0.1; done
		echo "$(grep ^State: /proc/$!/status)"; fg %1; echo "status $?"`
	run := folderRun(files, "job")
	c := exec.Command("bash", append([]string{"-c", script, "bash"}, run.Args...)...)
	c.Dir, c.Stdin, c.Stdout, c.Stderr = files, line, line, line
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	require.NoError(t, c.Start())
	require.NoError(t, line.Close())
	var shown bytes.Buffer
	io.Copy(&shown, terminal) // the end of a terminal is an error
	require.NoError(t, c.Wait(), shown.String())
	require.Contains(t, shown.String(), "T (stopped)")
	require.Contains(t, shown.String(), "status 0")
	require.Equal(t, contents(t, filepath.Join(files, "whole"))["adapter.gguf"], contents(t, filepath.Join(files, "job"))["adapter.gguf"])
}

// openTerminal opens both sides of a new terminal.
func openTerminal(t *testing.T) (terminal, line *os.File) {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals: ", err)
	}
	t.Cleanup(func() { terminal.Close() })
	control := func(request uintptr, value *uint32) {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), request, uintptr(unsafe.Pointer(value)))
		require.Zero(t, errno)
	}
	var number, unlocked uint32
	control(syscall.TIOCSPTLCK, &unlocked)
	control(syscall.TIOCGPTN, &number)
	line = need.Value(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	return terminal, line
}
