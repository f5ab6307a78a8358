package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"errors"
	"time"

	"github.com/goggml/ggml/internal/rpcrelay"
)

// A server computes a graph to its end: no message stops it. To obey a cancelled context, a
// computation on a server's device continues in the background, with its graph and backends
// retained.

// patience is how long a cancelled computation has to finish before it continues in the background.
const patience = 200 * time.Millisecond

// abandonable runs f, which computes on the backends. If one of them is on a server, abandonable
// returns when ctx ends. The next use of the graph or the backends then waits for f, and the server
// has the usual time limit for an answer.
func abandonable(ctx context.Context, backends []*Backend, f func() error) error {
	if ctx == nil || ctx.Done() == nil || calling() != nil || !isRemote(backends) {
		return f()
	}
	caller, done := outerCall(), make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return caller.blamed(err)
	case <-ctx.Done():
	}
	calm := hurry(backends)
	select {
	case err := <-done:
		calm()
		return caller.blamed(err)
	case <-time.After(patience):
		go func() {
			<-done
			calm()
		}()
		return context.Cause(ctx)
	}
}

// hurry sets a time limit for answers of the backends' servers until calm.
func hurry(backends []*Backend) (calm func()) {
	var all []func()
	for _, d := range sortedDevices(backends) {
		if r := rpcrelay.ByAddress(C.GoString(C.ggml_backend_dev_description(d))); r != nil {
			all = append(all, r.Hurry())
		}
	}
	return func() {
		for _, calm := range all {
			calm()
		}
	}
}

func isRemote(backends []*Backend) bool {
	for _, b := range backends {
		if b == nil || b.h == nil || b.h.closed() { // f reports the error
			return false
		}
	}
	return len(sortedDevices(backends)) > 0
}

// blamed attributes an error from a background goroutine to the caller's line.
func (c call) blamed(err error) error {
	var op *OpError
	var use *useError
	switch {
	case errors.As(err, &op) && op.Caller == "":
		op.Caller = c.line
		if op.namesCall {
			op.Op = c.function
		}
	case errors.As(err, &use):
		use.call = c
	}
	return err
}

// awaitRemote waits until the servers of the backends have computed a graph, by reading an answer
// that comes after it.
func (g *Graph) awaitRemote(ctx context.Context, backends []*Backend) error {
	if ctx.Done() == nil {
		return nil // the next read waits
	}
	for _, d := range sortedDevices(backends) {
		if err := guardError(C.goggml_graph_await(g.g, d)); err != nil {
			return err
		}
	}
	return nil
}
