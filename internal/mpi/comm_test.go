package mpi

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/testhook"
)

// useLibrary makes Start load testdata/mpi_abi.c, which simulates one other process.
func useLibrary(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libmpi_abi.so")
	need.Output(t, exec.Command(cmp.Or(os.Getenv("CC"), "cc"), "-shared", "-fPIC", "-o", path, "testdata/mpi_abi.c"))
	t.Setenv(LibraryVariable, path)
}

// start joins the other process of testdata/mpi_abi.c.
func start(t *testing.T, o Options) *Comm {
	t.Helper()
	useLibrary(t)
	c := need.Value(Start(t.Context(), Launch{Size: 2, variable: "PMI_SIZE"}, o))(t)
	require.Equal(t, []any{0, 2, "Test 1.0"}, []any{c.Rank, c.Size, c.Library})
	return c
}

// Neither a process that never joins nor an interrupt meanwhile blocks the others.
func TestJoinThatHangs(t *testing.T) {
	useLibrary(t)
	t.Setenv("MPI_HANG", "MPI_Init_thread")
	testhook.MPIJoin = 50 * time.Millisecond
	defer func() { testhook.MPIJoin = 0 }()
	l := Launch{Size: 2, variable: "PMI_SIZE"}
	_, err := Start(t.Context(), l, Options{})
	require.EqualError(t, err, "a launcher has started 2 processes (PMI_SIZE), and they have not all joined within 150ms: one of them runs another program, "+
		"has ended, or is cut off by the network; start this program, of one version, in all of them")
	testhook.MPIJoin = time.Hour
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("interrupted"))
	defer cancel()
	_, err = Start(ctx, l, Options{})
	require.EqualError(t, err, "interrupted")
}

// The wait for a sum with a live process is unlimited, until all are told to stop; then it is limited.
func TestSumThatHangs(t *testing.T) {
	need.Time(t, "waits for seconds")
	testhook.MPIGrace = 300 * time.Millisecond
	defer func() { testhook.MPIGrace = 0 }()
	for whom, want := range map[string]string{
		"the network between the processes": "a sum that all processes began has not ended 300ms after they were told to stop: the network between two of them is cut",
		"the other one":                     "the other one has not joined the others 300ms after all were told to stop: it is alive, but makes no progress",
	} {
		t.Run(whom, func(t *testing.T) {
			t.Setenv("MPI_HANG", "MPI_Iallreduce")
			if whom == "the other one" {
				t.Setenv("MPI_BEHIND", "1")
			}
			c := start(t, Options{Name: func(int) string { return "the other one" }})
			result := make(chan error, 1)
			go func() { result <- c.AllReduce([]float64{1}) }()
			require.Eventually(t, func() bool {
				w, is := Waiting()
				return is && w.Whom == whom && w.Current > 3*Grace() && w.Left == 0
			}, time.Minute, time.Millisecond)
			require.Empty(t, result, "it lives")
			began := time.Now()
			c.Stop()
			<-c.Stopped()
			require.EqualError(t, <-result, want)
			require.GreaterOrEqual(t, time.Since(began), Grace())
			_, is := Waiting()
			require.False(t, is)
		})
	}
}

// A library that does not return from MPI_Finalize does not block Close.
func TestFinalizeThatHangs(t *testing.T) {
	t.Setenv("MPI_HANG", "MPI_Finalize")
	c := start(t, Options{Silence: 100 * time.Millisecond})
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("it waits for the library")
	}
}

// Sums progress while they are polled: a message of many parts takes as many polls, much less than a
// millisecond apart. A busy machine disturbs some of them.
func TestSumIsLookedAfter(t *testing.T) {
	c := start(t, Options{})
	defer c.Close()
	least := time.Hour
	for range 10 {
		x := []float64{1, 2}
		began := time.Now()
		require.NoError(t, c.AllReduce(x)) // takes 20 polls
		least = min(least, time.Since(began))
		require.Equal(t, []float64{1, 2}, x)
	}
	require.Less(t, least, 10*time.Millisecond)
}

// The other process of testdata/mpi_abi.c sends zeros, and receives what rank 0 sends.
func TestExchange(t *testing.T) {
	c := start(t, Options{})
	defer c.Close()
	list := need.Value(c.AllGather([]byte("abc")))(t)
	require.Equal(t, [][]byte{[]byte("abc"), {0, 0, 0}}, list)
	list = need.Value(c.AllGather(nil))(t)
	require.Equal(t, [][]byte{{}, {}}, list)
	x := []byte("abc")
	require.NoError(t, c.Broadcast(x))
	require.Equal(t, "abc", string(x))
}
