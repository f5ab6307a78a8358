package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"runtime"
	"sync"
	"unsafe"
)

// ComputeThen is [Backend.Compute] of two graphs, one after the other, without a return in
// between. When ctx is cancelled before the second has begun, that does not begin, and the error is
// ctx's cause; what has begun of it is computed to its end. So a graph may change in place what
// must not be left changed by half. The second graph has no nodes that Go functions compute, whose
// failure would end it.
// C: ggml_backend_graph_compute, twice.
func (b *Backend) ComputeThen(ctx context.Context, first, then *Graph) error {
	b = made(b)
	if first == then && first != nil {
		return then.errorf(nil, "both graphs are the same; compute it twice")
	}
	if isRemote([]*Backend{b}) { // the server cannot tell whether the second has begun
		if err := b.Compute(ctx, first); err != nil {
			return err
		}
		return b.Compute(context.WithoutCancel(ctx), then)
	}
	inOrder := []*Graph{first, then} // of locking, so that two calls cannot wait for each other
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
