package ggml_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/testutil"
)

// A refusedThread is the result of a computation that could not get a thread.
type refusedThread struct {
	OutOfMemory, Broken bool
	Reason, Later       string // of the computation, and of the next one
}

var refuseThread = testutil.NewJob("refuseThread", func(struct{}) (r refusedThread, err error) {
	c := ggml.NewContext()
	defer c.Close()
	g := c.NewGraph(c.Sqr(c.NewTensor(ggml.F32, 8)))
	buffers, err := c.Allocate(ggml.CPUBufferType())
	if err != nil {
		return r, err
	}
	defer buffers.Close()
	b, err := ggml.NewCPUBackend(2)
	if err != nil {
		return r, err
	}
	defer b.Close()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return r, err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
		return r, err
	}
	failure := b.Compute(context.Background(), g)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || failure == nil {
		return r, err
	}
	r.OutOfMemory, r.Broken, r.Reason = errors.Is(failure, ggml.ErrOutOfMemory), errors.Is(failure, ggml.ErrBroken), failure.Error()
	if err := b.Compute(context.Background(), g); err != nil {
		r.Later = err.Error()
	}
	return r, nil
})

// A computation that could not start breaks nothing.
func TestRefusedThread(t *testing.T) {
	r, _, err := refuseThread.Run(struct{}{})
	require.NoError(t, err)
	require.Contains(t, r.Reason, "too many open files")
	require.True(t, r.OutOfMemory)
	require.False(t, r.Broken)
	require.Empty(t, r.Later)
}
