// Package computethread calls C functions that compute with OpenMP on operating-system threads of
// its own, and chooses how their workers wait.
//
// libgomp keeps a pool of workers for each thread that ever entered a parallel region. Goroutines
// move from thread to thread: computing on their threads would make a pool on each, and once all
// workers together outnumber the processors, libgomp sleeps at every barrier. And while a goroutine
// is in a C call, the monitor of the Go runtime (sysmon) polls up to 50,000 times a second, which
// disturbs the workers. So OpenMP computations run on one thread, or on several if several compute
// at once.
package computethread

// #include "thread.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// A Job is a call f(A, B) of a C function that computes:
//
//	struct { int64_t value; char *error; } f(void *a, void *b);
type Job struct {
	Func, A, B      unsafe.Pointer
	RestoreAffinity bool // of the thread, with its priority: the function may change them
}

// A Result is the result of a job's function.
type Result struct {
	Value int64
	Error unsafe.Pointer // char *, which the caller frees: the function failed before its end; otherwise nil
}

func (j Job) c() C.goggml_job {
	return C.goggml_job{function: C.goggml_function(j.Func), a: j.A, b: j.B, restore_affinity: C.bool(j.RestoreAffinity)}
}

var computed atomic.Int64 // ns

// Computed returns the total time of all jobs so far.
func Computed() time.Duration { return time.Duration(computed.Load()) }

func result(r C.goggml_job_result) Result {
	computed.Add(int64(r.elapsed))
	return Result{int64(r.outcome.value), unsafe.Pointer(r.outcome.error)}
}

// Call runs a job that does not use OpenMP on the calling thread.
func (j Job) Call() Result { return result(C.goggml_job_run(j.c())) }

// ErrNotStarted reports that Run had no thread: nothing was computed.
var ErrNotStarted = errors.New("no thread to compute on")

// Run runs a job on a thread of this package. After a Result with an error the thread is lost: its
// workers may wait for it in a parallel region, so it can neither compute again nor end.
func (j Job) Run() (Result, error) {
	t, err := get()
	if err != nil {
		return Result{}, err
	}
	r := t.run(j)
	if r.outcome.error != nil {
		t.closePipe()
	} else {
		put(t)
	}
	if p := processPolicy(); p != nil {
		p.record(time.Now(), time.Duration(r.elapsed), time.Duration(r.run_queue_wait))
	}
	return result(r), nil
}

// A thread runs one job at a time.
type thread struct {
	t            *C.goggml_thread
	done, notify *os.File // the ends of a pipe: a byte arrives at the end of each job
	byte         []byte
}

func newThread() (*thread, error) {
	done, notify, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w; close files, or raise the limit of open files", ErrNotStarted, err)
	}
	t := &thread{C.goggml_thread_new(C.int(notify.Fd())), done, notify, make([]byte, 1)}
	if t.t == nil {
		t.closePipe()
		return nil, fmt.Errorf("%w: the system cannot start another; end some, or raise the limit of threads", ErrNotStarted)
	}
	return t, nil
}

// run waits on the pipe: waiting in C would hold a processor (P) of the Go runtime.
func (t *thread) run(j Job) C.goggml_job_result {
	C.goggml_thread_start(t.t, j.c())
	_, _ = t.done.Read(t.byte) // after a read error, goggml_thread_wait waits
	return C.goggml_thread_wait(t.t)
}

func (t *thread) close() {
	C.goggml_thread_free(t.t)
	t.closePipe()
}

func (t *thread) closePipe() {
	t.done.Close()
	t.notify.Close()
}

// pool keeps one idle thread while it is retained.
var pool struct {
	mu    sync.Mutex
	users int
	idle  *thread
}

// Retain keeps an idle thread for later jobs, until the matching call of Release.
func Retain() {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.users++
}

// Release undoes one Retain.
func Release() {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.users--
	if pool.users == 0 && pool.idle != nil {
		pool.idle.close()
		pool.idle = nil
	}
}

func get() (*thread, error) {
	pool.mu.Lock()
	t := pool.idle
	pool.idle = nil
	pool.mu.Unlock()
	if t != nil {
		return t, nil
	}
	return newThread()
}

func put(t *thread) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.idle != nil || pool.users == 0 {
		t.close()
		return
	}
	pool.idle = t
}
