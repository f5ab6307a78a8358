package ggml_test

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// limitRoom limits the process to room more bytes of address space.
func limitRoom(t *testing.T, room uint64) {
	t.Helper()
	text := need.Value(os.ReadFile("/proc/self/statm"))(t)
	var pages uint64
	_, err := fmt.Sscan(string(text), &pages)
	require.NoError(t, err)
	limit := pages*uint64(os.Getpagesize()) + room
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit}))
}

// OpenBLAS, which the BLAS plugin loads, retries forever if memory for its threads is short.
func TestLoadInLittleAddressSpace(t *testing.T) {
	const env = "GOGGML_TEST_ROOM"
	for room, want := range map[string]string{
		"100": "ggml: plugins cannot be loaded: fewer than 200 MB of address space are left: raise the limit (ulimit -v)",
		"400": "loaded: <nil>",
	} {
		child, out := inChild(t, env+"="+room)
		if !child {
			require.Contains(t, out, want)
			continue
		}
		megabytes := need.Value(strconv.ParseUint(os.Getenv(env), 10, 64))(t)
		limitRoom(t, megabytes<<20)
		fmt.Println("loaded:", ggml.LoadBackends())
		return
	}
}

// libgomp ends the process if it cannot start a thread.
func TestTooManyThreads(t *testing.T) {
	child, out := inChild(t, "")
	if !child {
		require.Contains(t, out, "ggml: 500 threads: the system cannot start that many: use fewer, or raise the limit of processes (ulimit -u) or of memory (ulimit -v)")
		return
	}
	require.NoError(t, ggml.LoadBackends())
	limitRoom(t, 1<<30)
	b := need.Value(ggml.NewCPUBackend(2))(t)
	defer b.Close()
	fmt.Println(b.SetThreads(500))
	_, err := ggml.NewThreadPool(ggml.ThreadPoolParams{Threads: 500})
	require.ErrorContains(t, err, "ggml: thread pool: 500 threads: the system cannot start that many")
}

// A thread with too small a stack overwrites the memory beside it.
func TestSmallStack(t *testing.T) {
	t.Setenv("OMP_STACKSIZE", "16k")
	_, err := ggml.NewCPUBackend(2)
	require.EqualError(t, err, "ggml: 2 threads: OMP_STACKSIZE is 16k, which is too small a stack to compute on: make it at least 256k, or unset it")
	b, err := ggml.NewCPUBackend(1)
	require.NoError(t, err, "one thread is not OpenMP's")
	require.NoError(t, b.Close())
}
