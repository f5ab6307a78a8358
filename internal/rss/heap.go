package rss

import (
	"runtime"
	"runtime/metrics"
	"sync"
)

// A HeapWatch measures the growth of the live heap: what the collector finds reachable. Unlike the
// resident memory of the process, that depends neither on when garbage is collected, nor on the
// load of the machine, nor on the race detector.
type HeapWatch struct {
	mu     sync.Mutex
	every  int
	calls  int
	before int64
	growth int64
}

// WatchHeap begins to watch: of so many calls of [HeapWatch.Look], one looks.
func WatchHeap(every int) *HeapWatch { return &HeapWatch{every: every, before: liveHeap()} }

// Look collects garbage and looks at what is left.
func (w *HeapWatch) Look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls++; w.calls%w.every == 0 {
		w.growth = max(w.growth, liveHeap()-w.before)
	}
}

// Growth is by how many bytes the heap was larger, at most, than in the beginning.
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
