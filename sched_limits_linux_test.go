package ggml_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// A graph size of 2²⁰ takes 40 GB of address space. If the process may not have that, NewScheduler
// returns an error; ggml would assert at the first allocation. A child process runs it, limited to
// 8 GB more than it has.
func TestGraphSizeOfLimitedProcess(t *testing.T) {
	const child = "GOGGML_TEST_LIMITED"
	if os.Getenv(child) == "" {
		self := need.Value(os.Executable())(t)
		p := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
		p.Env = append(os.Environ(), child+"=1")
		out, err := p.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS")
		return
	}
	b := optest.NewCPUBackend(t, 1)
	limitAddressSpace(t, 8<<30)
	_, err := ggml.NewScheduler(ggml.SchedulerOptions{GraphSize: 1 << 20}, b)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.ErrorContains(t, err, "a GraphSize of 1048576 takes ")
	require.ErrorContains(t, err, "use one no larger than the nodes and leaves of the largest graph")
	_, err = ggml.NewOptimizer(ggml.OptimizerOptions{GraphSize: 1 << 20}, b)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)

	s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{GraphSize: 1 << 10}, b))(t)
	defer s.Close()
	c := ggml.NewContext()
	defer c.Close()
	require.NoError(t, s.Allocate(c.NewGraph(c.Neg(c.NewTensor(ggml.F32, 2)))))
}

// limitAddressSpace limits the process to more bytes of additional address space.
func limitAddressSpace(t *testing.T, more uint64) {
	statm := need.Value(os.ReadFile("/proc/self/statm"))(t)
	pages := need.Value(strconv.ParseUint(strings.Fields(string(statm))[0], 10, 64))(t)
	limit := unix.Rlimit{Max: unix.RLIM_INFINITY, Cur: pages*uint64(os.Getpagesize()) + more}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &limit))
}
