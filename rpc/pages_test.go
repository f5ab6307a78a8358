//go:build linux

package rpc_test

import (
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/testhook"
)

// Memory filled after FaultIn causes no page faults, at any alignment of its ends; memory around it
// is not changed.
func TestFaultIn(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	faults := func(p []byte) int64 {
		var before, after unix.Rusage
		require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &before))
		for i := range p {
			p[i] = 1
		}
		require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &after))
		return after.Minflt - before.Minflt
	}
	const pages, inner = 512, 128
	page := os.Getpagesize()
	memory := need.Value(unix.Mmap(-1, 0, pages*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(t)
	defer unix.Munmap(memory)
	require.NoError(t, unix.Madvise(memory, unix.MADV_NOHUGEPAGE))
	part := memory[100*page+1 : (100+inner)*page-1]
	testhook.FaultIn(part)
	if err := unix.Madvise(memory[:page], unix.MADV_POPULATE_WRITE); err == syscall.EINVAL {
		t.Skip("Linux before 5.14 cannot")
	}
	require.Less(t, faults(part), int64(inner/4), "but for the first page and the last one")
	require.Greater(t, faults(memory[(100+inner)*page:]), int64(inner))
}
