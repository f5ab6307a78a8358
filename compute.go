package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goggml/ggml/internal/computethread"
)

// Compute runs the graph and waits for its end. The graph's tensors must be allocated, and the
// device must support its ops. If ctx is cancelled, the CPU stops before the next node and Compute
// returns ctx's cause; the backend stays usable. A server of [AddRPCServer] computes to the end
// although Compute returns: the next use of the backend or the graph waits for the server.
//
// C: ggml_backend_graph_compute; of the CPU ggml_graph_compute_with_ctx,
// ggml_backend_cpu_set_abort_callback.
func (b *Backend) Compute(ctx context.Context, g *Graph) error {
	b = made(b)
	backends := []*Backend{b}
	return abandonable(ctx, backends, func() error {
		release, err := g.check([]*Device{b.device}, checkReady)
		if err != nil {
			return err
		}
		defer release()
		return g.compute(ctx, &computation{backends: backends}, func() (int64, error) {
			return runOn(backends, C.goggml_backend_compute, unsafe.Pointer(b.b), unsafe.Pointer(g.g))
		})
	})
}

// compute is run for a function f that waits until the backends have finished, including their
// earlier work.
func (g *Graph) compute(ctx context.Context, c *computation, f func() (int64, error)) error {
	var releases []func()
	err := g.run(ctx, c, func() (int64, error) {
		status, err := f()
		if err == nil && status == C.GGML_STATUS_SUCCESS {
			err = g.awaitRemote(ctx, c.backends)
		}
		for _, b := range c.backends {
			if b.async && err == nil && status == C.GGML_STATUS_SUCCESS {
				releases = append(releases, b.pending.finish())
			}
		}
		return status, err
	})
	for _, release := range releases {
		release()
	}
	return err
}

// run runs f until it ends or ctx is cancelled, with the graph and the backends locked. f uses the
// backends through runOn and returns a ggml_status.
func (g *Graph) run(ctx context.Context, c *computation, f func() (int64, error)) error {
	if ctx == nil {
		return g.errorf(nil, "the context.Context is nil")
	}
	backends := c.backends
	c.graph, c.outer = g, calling()
	unlock, err := lockBackends(backends)
	if err != nil {
		return during(err, g.operand())
	}
	defer unlock()
	for _, b := range backends {
		if why := b.fault.Load(); why != nil {
			return g.errorf(ErrBroken, "backend %s is broken by an earlier failure: %s", b.Name(), *why)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	stop := watch(ctx, backends)
	c.startCustom()
	unlockPools, unlockDevices := lockPools(backends), lockDevices(backends)
	status, err := f()
	unlockDevices()
	unlockPools()
	stop()
	failure := c.endCustom()
	if failure != nil && err == nil {
		return failure
	}
	return g.finish(ctx, backends, status, err)
}

// runOn calls a C function f(a, b) that computes on the locked backends. A computation with OpenMP
// runs on a compute thread.
func runOn(backends []*Backend, f, a, b unsafe.Pointer) (int64, error) {
	job := computethread.Job{
		Func: f, A: a, B: b,
		// The thread that computes with a thread pool joins it, which changes its affinity.
		RestoreAffinity: slices.ContainsFunc(backends, func(b *Backend) bool { return b.pool.pool != nil }),
	}
	if !slices.ContainsFunc(backends, func(b *Backend) bool { return b.openMP && b.threads != 1 }) {
		r := job.Call()
		return r.Value, guardError((*C.char)(r.Error))
	}
	r, err := job.Run()
	if err != nil {
		return 0, err
	}
	return r.Value, guardError((*C.char)(r.Error))
}

// lockBackends retains and locks each backend once, always in the same order to rule out deadlocks.
func lockBackends(backends []*Backend) (unlock func(), err error) {
	backends = slices.Compact(slices.SortedFunc(slices.Values(backends), func(a, b *Backend) int {
		return cmp.Compare(uintptr(unsafe.Pointer(a.b)), uintptr(unsafe.Pointer(b.b)))
	}))
	for i, b := range backends {
		if err := b.h.acquire(); err != nil {
			for _, held := range backends[:i] {
				held.h.release()
			}
			return nil, err
		}
	}
	if caller := calling(); slices.ContainsFunc(backends, func(b *Backend) bool { return caller.waitsFor(&b.mu) }) {
		for _, b := range backends {
			b.h.release()
		}
		return nil, busyError()
	}
	for _, b := range backends {
		b.mu.Lock()
	}
	return func() {
		for _, b := range backends {
			b.mu.Unlock()
			b.h.release()
		}
	}, nil
}

// watch raises the abort flags when ctx is cancelled. stop ends the watch; no flag is touched after
// stop returns.
func watch(ctx context.Context, backends []*Backend) (stop func()) {
	for _, b := range backends {
		b.abort.lower()
	}
	raised := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		for _, b := range backends {
			b.abort.raise()
		}
		close(raised)
	})
	return func() {
		if !cancel() {
			<-raised
		}
	}
}

// finish turns the result of a computation into an error.
func (g *Graph) finish(ctx context.Context, backends []*Backend, status int64, err error) error {
	if errors.Is(err, computethread.ErrNotStarted) {
		return g.errorf(ErrOutOfMemory, "%v", err)
	}
	if err != nil {
		// The workers may wait forever at a barrier for the thread that left.
		why, cause := err.Error(), ErrBroken
		if errors.Is(err, ErrOutOfMemory) {
			why, cause = fmt.Sprintf("out of memory%s; %s", rooms(backends), lessMemory), errors.Join(ErrBroken, ErrOutOfMemory)
		}
		for _, b := range backends {
			b.fault.Store(&why)
		}
		return g.errorf(cause, "%s", why)
	}
	for _, b := range backends {
		if err := deviceErr(b.device.d); err != nil {
			return g.errorf(err, "%v", err)
		}
	}
	switch status {
	case C.GGML_STATUS_SUCCESS:
		return nil
	case C.GGML_STATUS_ABORTED:
		return context.Cause(ctx)
	case C.GGML_STATUS_ALLOC_FAILED:
		return g.errorf(ErrOutOfMemory, "out of memory; use a smaller batch or context")
	}
	return g.errorf(Status(status), "%v", Status(status))
}
