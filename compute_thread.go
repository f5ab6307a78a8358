package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/goggml/ggml/internal/testhook"
)

func init() {
	testhook.Computed = func() time.Duration { return time.Duration(C.goggml_run_times().took) }
}

// OpenMP keeps a team of workers for each system thread that ever computes, and
// once they are more than the processors, they sleep at each step; but the Go
// runtime calls from whichever thread it has at hand. And as long as a thread of
// Go's computes, the runtime looks after it up to 50,000 times a second, and
// disturbs the others. So what takes a team runs on system threads of the
// binding: on one for all backends, unless several compute at once.

// A computeThread is such a thread.
type computeThread struct {
	w          *C.goggml_worker
	done, tell *os.File // the ends of a pipe: a byte comes with each end of a job
	byte       []byte
}

func newComputeThread() (*computeThread, error) {
	done, tell, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("no pipe to a thread that computes: %w; close something, or raise the limit of open files", err)
	}
	t := &computeThread{C.goggml_worker_new(C.int(tell.Fd())), done, tell, make([]byte, 1)}
	if t.w == nil {
		done.Close()
		tell.Close()
		return nil, errors.New("no system thread to compute on; close something, or raise the limit of threads")
	}
	return t, nil
}

// run waits for the pipe, and not in C, where it would hold one of the
// processors of the Go runtime.
func (t *computeThread) run(job C.goggml_job) C.goggml_int {
	C.goggml_worker_begin(t.w, job)
	_, _ = t.done.Read(t.byte) // after an error goggml_worker_end waits
	return C.goggml_worker_end(t.w)
}

func (t *computeThread) close() {
	C.goggml_worker_free(t.w)
	t.done.Close()
	t.tell.Close()
}

// computeThreads keeps one thread, as long as there are backends to use it.
var computeThreads struct {
	mu       sync.Mutex
	backends int
	idle     *computeThread
}

// keepComputeThread is called for each backend.
func keepComputeThread() {
	c := &computeThreads
	c.mu.Lock()
	defer c.mu.Unlock()
	c.backends++
}

// dropComputeThread is called when the backend is no more.
func dropComputeThread() {
	c := &computeThreads
	c.mu.Lock()
	defer c.mu.Unlock()
	c.backends--
	if c.backends == 0 && c.idle != nil {
		c.idle.close()
		c.idle = nil
	}
}

// takeComputeThread gives a thread to the caller; giveComputeThread takes it back.
func takeComputeThread() (*computeThread, error) {
	c := &computeThreads
	c.mu.Lock()
	t := c.idle
	c.idle = nil
	c.mu.Unlock()
	if t != nil {
		return t, nil
	}
	return newComputeThread()
}

func giveComputeThread(t *computeThread) {
	c := &computeThreads
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil || c.backends == 0 {
		t.close()
		return
	}
	c.idle = t
}

// neverRan is the value of a result with an error when nothing was computed.
const neverRan = math.MinInt32

// runOnThread runs a function that may take a team of workers.
func runOnThread(job C.goggml_job) C.goggml_int {
	t, err := takeComputeThread()
	if err != nil {
		return C.goggml_int{value: neverRan, error: C.CString(err.Error())}
	}
	r := t.run(job)
	if r.error != nil {
		// It left its team, which waits for it. Another team it cannot have, nor end.
		t.done.Close()
		t.tell.Close()
		return r
	}
	giveComputeThread(t)
	return r
}

// runOn runs a C function that computes on the backends, which are locked.
func runOn(backends []*Backend, f, a, b unsafe.Pointer) C.goggml_int {
	job := C.goggml_job{
		run: C.goggml_function(f), a: a, b: b,
		// The calling thread is one of the pool.
		keep_thread: C.bool(slices.ContainsFunc(backends, func(b *Backend) bool { return b.pool.pool != nil })),
	}
	if !slices.ContainsFunc(backends, func(b *Backend) bool { return b.teams && b.threads != 1 }) {
		return C.goggml_run(job)
	}
	before := C.goggml_run_times()
	result := runOnThread(job)
	noteJob(before, C.goggml_run_times())
	return result
}
