package computethread

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/computethread/testjob"
	"github.com/goggml/ggml/internal/test/need"
)

// Jobs run one after another on one thread, which is not the caller's, until a failure makes a job
// leave it.
func TestRun(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	Retain()
	defer Release()
	sum, one := int64(0), int64(1)
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&sum)
	pinner.Pin(&one)
	job := Job{Func: testjob.Add, A: unsafe.Pointer(&sum), B: unsafe.Pointer(&one)}
	run := func() int64 {
		r := need.Value(job.Run())(t)
		require.Nil(t, r.Error)
		return r.Value
	}

	before := Computed()
	first := run()
	require.Equal(t, first, run())
	require.NotEqual(t, first, job.Call().Value)
	require.EqualValues(t, 3, sum)
	require.Greater(t, Computed(), before)

	failed := need.Value(Job{Func: testjob.Fail}.Run())(t)
	require.EqualValues(t, -1, failed.Value)
	require.Equal(t, "it failed", testjob.Message(failed.Error))
	require.NotEqual(t, first, run())
}

// Of several threads used at once, one is kept while retained.
func TestPool(t *testing.T) {
	Retain()
	defer Release()
	seen := map[*thread]bool{}
	for range 8 {
		thread := need.Value(get())(t)
		seen[thread] = true
	}
	require.Len(t, seen, 8)
	for thread := range seen {
		put(thread)
	}

	kept := need.Value(get())(t)
	require.True(t, seen[kept])
	put(kept)
	again := need.Value(get())(t)
	require.Same(t, kept, again)
	put(again)
}
