package ggml

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// pendingWork holds what unfinished work of a backend uses: Go memory, contexts and buffers. The
// backend's cleanup, which must not refer to the backend, ends it.
type pendingWork struct {
	mu       sync.Mutex
	pinner   runtime.Pinner
	releases []func()
}

func (p *pendingWork) add(memory *byte, release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if memory != nil {
		p.pinner.Pin(memory)
	}
	p.releases = append(p.releases, release)
}

// finish unpins the memory: the backend has finished. The caller calls release
// for the rest once it holds no locks, since that may free what waits for this
// backend.
func (p *pendingWork) finish() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	releases := p.releases
	p.releases = nil
	p.pinner.Unpin()
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

// addPending adds memory and contexts, which are retained, to the pending work:
// release is called when the backend has finished. The backend is locked.
func (b *Backend) addPending(memory *byte, contexts []*Context, release func()) {
	for _, c := range contexts {
		c.mu.Lock()
		for _, a := range c.allocations {
			a.memory.addPending(b)
		}
		c.mu.Unlock()
	}
	b.pending.add(memory, release)
}

// afterN returns a function whose n-th call calls f.
func afterN(n int64, f func()) func() {
	left := &atomic.Int64{}
	left.Store(n)
	return func() {
		if left.Add(-1) == 0 {
			f()
		}
	}
}
