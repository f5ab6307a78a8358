package ggml

import "runtime"

// A computeThread is the system thread from which a backend with several threads
// computes. OpenMP keeps a team of workers for each system thread that ever
// computes, and once they are more than the processors, they sleep at each step:
// but the Go runtime calls from whichever thread it has at hand.
type computeThread struct {
	work chan func() // nil until the first use
}

// do runs f. It is not safe for concurrent use.
func (t *computeThread) do(f func()) {
	if t.work == nil {
		t.work = make(chan func())
		go serve(t.work)
	}
	done := make(chan struct{})
	t.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// serve works until there is no more to come. The system thread, and with it the
// team, ends with the goroutine, as this keeps it locked.
func serve(work <-chan func()) {
	runtime.LockOSThread()
	for f := range work {
		f()
	}
}

func (t *computeThread) close() {
	if t.work != nil {
		close(t.work)
	}
}

// onThread runs f, from which the backends compute, on the thread of the one
// that has several threads of its own; there is at most one CPU among them.
func onThread(backends []*Backend, f func()) {
	for _, b := range backends {
		if b.threads != 1 && b.device.Type() == CPU {
			b.thread.do(f)
			return
		}
	}
	f()
}
