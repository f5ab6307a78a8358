package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"errors"
	"time"

	"github.com/goggml/ggml/internal/rpcrelay"
)

// A server computes a graph to its end: no message stops it. So that a cancelled context is heard anyway, a computation
// on servers' devices continues in the background, and keeps what it uses.

// patience is how long a computation has to end by itself once its context has ended.
const patience = 200 * time.Millisecond

// abandonable runs f, which computes on the backends. Where one is of a server, it returns when ctx ends; what uses the
// graph or the backends next waits until f has ended, for which the server has as long then as for any other answer.
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

// hurry hurries the servers of the backends until calm.
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
		if b == nil || b.h == nil || b.h.closed() { // f returns the error
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

// awaitRemote waits until the servers among the devices of the backends have computed a graph: what they answer comes
// after it.
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
