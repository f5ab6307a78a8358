package rss

import (
	"runtime"
	"runtime/metrics"
	"sync"
)

// A HeapWatch measures the growth of the live heap: the memory that the garbage collector finds reachable.
// Unlike resident memory, it does not depend on when garbage is collected, on the load of the machine, or on
// the race detector.
type HeapWatch struct {
	mu     sync.Mutex
	every  int
	calls  int
	before int64
	growth int64
}

// WatchHeap starts a watch; one in every calls of [HeapWatch.Look] measures.
func WatchHeap(every int) *HeapWatch { return &HeapWatch{every: every, before: liveHeap()} }

// Look collects garbage and measures the live heap. What goroutines allocate during a collection counts as live, and on a
// busy machine that is much: a larger heap than before is measured twice.
func (w *HeapWatch) Look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls++; w.calls%w.every == 0 {
		growth := liveHeap() - w.before
		if growth > w.growth {
			growth = min(growth, liveHeap()-w.before)
		}
		w.growth = max(w.growth, growth)
	}
}

// Growth returns by how many bytes the heap exceeded its initial size, at most.
func (w *HeapWatch) Growth() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.growth
}

func liveHeap() int64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
