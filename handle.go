package ggml

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
)

// A handle owns one C object. It counts references: the owner, each child that needs the object,
// and each running call. Close removes the owner's reference and admits no new ones; the C object
// is freed with the last reference.
type handle struct {
	kind    string
	state   atomic.Int64 // number of references, and closedBit
	free    func()
	parents []*handle
}

const closedBit = int64(1) << 62

// newHandle retains each parent until the handle is freed. If a parent is closed, newHandle frees
// the C object and fails.
func newHandle(kind string, free func(), parents ...*handle) (*handle, error) {
	h := &handle{kind: kind, free: free, parents: parents}
	for i, p := range parents {
		if err := p.acquire(); err != nil {
			for _, q := range parents[:i] {
				q.release()
			}
			free()
			return nil, err
		}
	}
	h.state.Store(1)
	handles.opened(h)
	return h, nil
}

// acquire takes a reference: the C object stays until release. The handle of a zero value is nil.
func (h *handle) acquire() error {
	if h == nil {
		return zeroError()
	}
	for {
		s := h.state.Load()
		if s&closedBit != 0 {
			return &useError{kind: h.kind, call: outerCall(), err: ErrClosed}
		}
		if h.state.CompareAndSwap(s, s+1) {
			return nil
		}
	}
}

func (h *handle) release() {
	if h.state.Add(-1) != closedBit {
		return
	}
	h.free()
	for _, p := range h.parents {
		p.release()
	}
}

func (h *handle) closed() bool { return h.state.Load()&closedBit != 0 }

// freed reports whether the last reference is gone.
func (h *handle) freed() bool { return h.state.Load() == closedBit }

// close is idempotent. It reports whether this call closed the handle.
func (h *handle) close() bool {
	if h == nil {
		return false
	}
	for {
		s := h.state.Load()
		if s&closedBit != 0 {
			return false
		}
		if h.state.CompareAndSwap(s, s|closedBit) {
			handles.closed(h)
			memory.forget(h)
			h.release()
			return true
		}
	}
}

// A cleanup undoes a sequence of steps in reverse order after an error or a panic, unless it is
// kept.
type cleanup []func()

func (c *cleanup) add(f func()) { *c = append(*c, f) }
func (c *cleanup) keep()        { *c = nil }

func (c *cleanup) run() {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i]()
	}
}

// closeOnCollect closes the handle when the garbage collector finds owner unreachable, for an
// object dropped without Close.
func closeOnCollect[T any](owner *T, h *handle) {
	runtime.AddCleanup(owner, func(h *handle) {
		if h.close() {
			logger().Warn("ggml: object was garbage collected without Close", slog.String("kind", h.kind))
		}
	}, h)
}

// handles counts the open handles of each kind.
var handles = handleTable{counts: map[string]int{}}

type handleTable struct {
	mu      sync.Mutex
	counts  map[string]int
	profile *pprof.Profile
}

func (t *handleTable) opened(h *handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.profile == nil && os.Getenv("GOGGML_DEBUG") == "handles" {
		t.profile = pprof.NewProfile("github.com/goggml/ggml/handles")
	}
	t.counts[h.kind]++
	if t.profile != nil {
		t.profile.Add(h, 3)
	}
}

func (t *handleTable) closed(h *handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[h.kind]--; t.counts[h.kind] == 0 {
		delete(t.counts, h.kind)
	}
	if t.profile != nil {
		t.profile.Remove(h)
	}
}

// OpenObjects returns the number of open objects of this package by kind ("context", "buffer", …).
// A program's test can require that it is empty at the end. With the environment variable
// GOGGML_DEBUG=handles, the pprof profile "github.com/goggml/ggml/handles" reports where they were
// made.
//
// It is safe for concurrent use.
func OpenObjects() map[string]int {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	open := make(map[string]int, len(handles.counts))
	for kind, n := range handles.counts {
		open[kind] = n
	}
	return open
}
