package ggml

/*
#include <pthread.h>
*/
import "C"

import (
	"runtime"
	"sync"
)

// OpenMP keeps a team of workers for each system thread that ever computes, and
// once they are more than the processors, they sleep at each step. But the Go
// runtime calls from whichever thread it has at hand. So what takes a team runs
// on threads of its own: on one for all backends, unless several compute at once.

// A computeThread is such a thread.
type computeThread struct {
	work chan func()
	done chan struct{}
}

func newComputeThread() *computeThread {
	t := &computeThread{work: make(chan func()), done: make(chan struct{})}
	go t.serve()
	return t
}

// The process's first thread: variables are initialised on it.
var firstThread = C.pthread_self()

func onFirstThread() bool { return C.pthread_self() == firstThread }

// serve works until there is no more to come. The system thread, and with it the
// team, ends with the goroutine, as this keeps it locked.
func (t *computeThread) serve() {
	runtime.LockOSThread()
	if onFirstThread() { // which never ends: wait on it for another
		defer runtime.UnlockOSThread()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			t.serve()
		}()
		<-ended
		return
	}
	for f := range t.work {
		f()
		t.done <- struct{}{}
	}
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
		close(c.idle.work)
		c.idle = nil
	}
}

// onComputeThread runs f, which may take a team of workers.
func onComputeThread(f func()) {
	c := &computeThreads
	c.mu.Lock()
	t := c.idle
	c.idle = nil
	c.mu.Unlock()
	if t == nil {
		t = newComputeThread()
	}
	t.work <- f
	<-t.done
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil || c.backends == 0 {
		close(t.work)
		return
	}
	c.idle = t
}
