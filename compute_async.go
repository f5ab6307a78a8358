package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"runtime"
	"sync"
	"unsafe"
)

// ComputeAsync starts the computation of a graph and returns, if the device computes
// asynchronously; otherwise, as on the CPU, it is Compute. [Backend.Synchronize] waits for the
// results and reports whether the device failed. Until then, read and write the graph's tensors
// only by [Backend.ReadAsync] and [Backend.WriteAsync], which keep the order. The graph, its data
// and the backend may be closed meanwhile: they are freed after the computation. Allocating another
// graph in the same memory waits for the computation. Cancelling ctx stops only work that runs
// before ComputeAsync returns. C: ggml_backend_graph_compute_async.
func (b *Backend) ComputeAsync(ctx context.Context, g *Graph) error {
	b = made(b)
	release, err := g.lock([]*Device{b.device}, checkReady)
	if err != nil {
		return err
	}
	defer g.busy.Unlock() // the device no longer needs the graph
	return g.begin(ctx, &computation{backends: []*Backend{b}}, release, func() (int64, error) {
		return runOn([]*Backend{b}, C.goggml_backend_compute_async, unsafe.Pointer(b.b), unsafe.Pointer(g.g))
	})
}

// begin is compute for a function that may return before the end. It calls release when the
// backends no longer use the data of the graph.
func (g *Graph) begin(ctx context.Context, c *computation, release func(), f func() (int64, error)) error {
	backends := c.backends
	releaseOne := afterN(int64(1+len(backends)), release)
	defer releaseOne()
	contexts, pending := g.ctx.withDependencies(), 0
	err := g.run(ctx, c, func() (int64, error) {
		for _, b := range backends {
			if b.async {
				b.addPending(nil, contexts, releaseOne)
				pending++
			}
		}
		return f()
	})
	for range len(backends) - pending {
		releaseOne()
	}
	return err
}

// ComputeAsync is [Scheduler.Compute] without waiting for devices that compute asynchronously; see
// [Backend.ComputeAsync]. [Scheduler.Synchronize] waits for the results. C:
// ggml_backend_sched_graph_compute_async.
func (s *Scheduler) ComputeAsync(ctx context.Context, g *Graph) error {
	s = made(s)
	return s.with(g, func() error {
		release, err := g.lock(nil, checkReady)
		if err != nil {
			return err
		}
		defer g.busy.Unlock()
		if err := s.current.unchanged(g); err != nil {
			release()
			return err
		}
		if err := s.h.acquire(); err != nil {
			release()
			return during(err, g.operand())
		}
		for _, b := range s.backends {
			s.current.memory.addPending(b) // the scheduler owns the copies of inputs
		}
		releaseAll := func() {
			release()
			s.h.release()
		}
		return s.eval(g, func(c *computation) error {
			return g.begin(ctx, c, releaseAll, func() (int64, error) {
				return s.sources.with(func() (int64, error) {
					return runOn(s.backends, C.goggml_sched_compute_async, unsafe.Pointer(s.s), unsafe.Pointer(g.g))
				})
			})
		})
	})
}

// Synchronize waits until all backends of the scheduler have finished their work. C:
// ggml_backend_sched_synchronize.
func (s *Scheduler) Synchronize() error {
	s = made(s)
	if err := s.h.acquire(); err != nil {
		return err
	}
	defer s.h.release()
	if err := lock(&s.current.mu); err != nil {
		return err
	}
	unlock, err := lockBackends(s.backends)
	if err != nil {
		s.current.mu.Unlock()
		return err
	}
	err = guardError(C.goggml_sched_synchronize(s.s))
	var releases []func()
	for _, b := range s.backends {
		releases = append(releases, b.pending.finish())
		if err == nil {
			err = wrapDeviceErr(b.device.d)
		}
	}
	unlock()
	s.current.mu.Unlock()
	for _, release := range releases {
		release()
	}
	return err
}

// ComputeThen is [Backend.Compute] of two graphs, one after the other, without returning in
// between. If ctx is cancelled before the second graph has begun, it does not begin, and the error
// is ctx's cause. Once begun, the second graph runs to its end: use it for changes in place that
// must not stop halfway. The second graph must have no nodes that Go functions compute, because
// their failure would stop it. C: ggml_backend_graph_compute, twice.
func (b *Backend) ComputeThen(ctx context.Context, first, then *Graph) error {
	b = made(b)
	if first == then && first != nil {
		return then.errorf(nil, "both graphs are the same; compute it twice")
	}
	if isRemote([]*Backend{b}) { // the server cannot report whether the second has begun
		if err := b.Compute(ctx, first); err != nil {
			return err
		}
		return b.Compute(context.WithoutCancel(ctx), then)
	}
	inOrder := []*Graph{first, then} // of locking, to rule out deadlocks
	if uintptr(unsafe.Pointer(first)) > uintptr(unsafe.Pointer(then)) {
		inOrder = []*Graph{then, first}
	}
	for _, g := range inOrder {
		release, err := g.check([]*Device{b.device}, checkReady)
		if err != nil {
			return err
		}
		defer release()
	}
	if len(then.customNodes()) > 0 {
		return then.errorf(nil, "the second graph has nodes that Go functions compute; compute it alone")
	}
	c := &computation{backends: []*Backend{b}, locks: []*sync.Mutex{&then.busy}, then: then}
	return first.compute(ctx, c, func() (int64, error) {
		graphs := &C.goggml_two_graphs{first: first.g, then: then.g, abort: b.abort.cPtr()}
		var pinned runtime.Pinner // while another thread computes
		pinned.Pin(graphs)
		defer pinned.Unpin()
		return runOn([]*Backend{b}, C.goggml_backend_compute_then, unsafe.Pointer(b.b), unsafe.Pointer(graphs))
	})
}
