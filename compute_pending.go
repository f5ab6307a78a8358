package ggml

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// pendingWork lists the resources of a backend's unfinished work: Go memory, contexts and buffers.
// It has no reference to the backend, so that the backend's cleanup can use it.
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

// finish unpins the memory after the backend has finished. The caller calls release, for the other
// resources, when it holds no locks: release may free an object that waits for this backend.
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

// addPending adds memory and retained contexts to the pending work; release is called when the
// backend has finished. The caller has locked the backend.
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

// afterN returns a function that calls f at its n-th call.
func afterN(n int64, f func()) func() {
	left := &atomic.Int64{}
	left.Store(n)
	return func() {
		if left.Add(-1) == 0 {
			f()
		}
	}
}
