package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/goggml/ggml/internal/rpcwire"
)

// Graphs are kept for GraphRecompute.
const (
	maxRPCGraphs     = 1024      // on a device: a client that sends more has forgotten the first ones
	maxRPCGraphBytes = 512 << 20 // of all graphs of a client
)

// rpcBuildFactor is how much memory building a graph takes for each byte of its message, until it is built.
const rpcBuildFactor = 4

func (s *rpcSession) graphCompute(size int) error {
	building := rpcBuildFactor * int64(size)
	if err := s.charge(building); err != nil {
		return err
	}
	uid, g, err := s.receiveGraph(size)
	s.uncharge(building)
	if err != nil {
		return err
	}
	if uid == 0 {
		defer s.dismiss(g)
	} else {
		s.keep(uid, g)
	}
	return s.compute(g)
}

// receiveGraph reads and builds a graph.
func (s *rpcSession) receiveGraph(size int) (uid uint64, g *rpcGraph, err error) {
	m, err := rpcwire.ReadGraph(size, s.read)
	if err != nil {
		return 0, nil, err
	}
	ctx, stop := s.begin()
	defer stop()
	g, err = s.newRPCGraph(ctx, m)
	return m.UID, g, err
}

// keep stores a graph by its number, in place of older ones where there are too many.
func (s *rpcSession) keep(uid uint64, g *rpcGraph) {
	graphs := s.graphs[g.device]
	if len(graphs) >= maxRPCGraphs {
		for old := range graphs {
			s.drop(g.device, old)
		}
	}
	if graphs[uid] != nil {
		s.drop(g.device, uid)
	}
	graphs[uid] = g
	g.used = s.clock
	s.kept += g.bytes
	for s.kept > maxRPCGraphBytes && s.dropOldest(g) {
	}
}

func (s *rpcSession) drop(device int, uid uint64) {
	g := s.graphs[device][uid]
	delete(s.graphs[device], uid)
	s.kept -= g.bytes
	s.dismiss(g)
}

// dismiss frees a graph that is not kept.
func (s *rpcSession) dismiss(g *rpcGraph) {
	g.c.Close()
	s.uncharge(g.bytes)
}

// dropOldest drops the least recently used graph, except one; false if there is none.
func (s *rpcSession) dropOldest(except *rpcGraph) bool {
	oldest, device, number := except, 0, uint64(0)
	for d, graphs := range s.graphs {
		for uid, g := range graphs {
			if g != except && (oldest == except || g.used < oldest.used) {
				oldest, device, number = g, d, uid
			}
		}
	}
	if oldest == except {
		return false
	}
	s.drop(device, number)
	return true
}

func (s *rpcSession) graphRecompute(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	uid := binary.LittleEndian.Uint64(body[4:])
	g := s.graphs[d.index][uid]
	if g == nil {
		return fmt.Errorf("the client has no graph %d; it was dropped, or never there", uid)
	}
	return s.compute(g)
}

// compute computes the stages of a graph one after the other.
func (s *rpcSession) compute(g *rpcGraph) error {
	s.clock++
	g.used = s.clock
	s.current = g
	defer func() { s.current = nil }()
	b, err := s.backend(g.device)
	if err != nil {
		return err
	}
	ctx, stop := s.begin()
	defer stop()
	defer func(begin time.Time) { s.stats.computing += time.Since(begin) }(time.Now())
	s.stats.graphs++
	for _, stage := range g.stages {
		for _, l := range stage.lookups {
			if err := s.check(l); err != nil {
				return err
			}
		}
		if stage.g.g == nil || C.ggml_graph_n_nodes(stage.g.g) == 0 {
			continue
		}
		if err := s.reserveWork(b, g.device, stage.g); err != nil {
			return err
		}
		if err := b.Compute(ctx, stage.g); err != nil {
			return err
		}
	}
	return nil
}

// begin begins work that ends early when the client is gone.
func (s *rpcSession) begin() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	finished, unwatch := s.computes(), s.watchHangUp(func() { cancel(errRPCEnd) })
	return ctx, func() {
		unwatch()
		finished()
		cancel(nil)
	}
}

// reserveWork reserves the memory that the CPU computes a graph in, which its backend keeps.
func (s *rpcSession) reserveWork(b *Backend, device int, g *Graph) error {
	if b.device.Type() != CPU {
		return nil
	}
	r := C.goggml_cpu_work_size(b.b, g.g, C.int(b.threads))
	if err := guardError(r.error); err != nil {
		return err
	}
	if more := int64(r.value) - s.work[device]; more > 0 {
		if err := s.charge(more); err != nil {
			return err
		}
		s.work[device] += more
	}
	return nil
}

// backend opens the session's own backend on a device.
func (s *rpcSession) backend(device int) (*Backend, error) {
	if b := s.backends[device]; b != nil {
		return b, nil
	}
	d := s.server.devices[device]
	b, err := d.NewBackend()
	if err != nil {
		return nil, err
	}
	if d.Type() == CPU {
		if err := b.SetThreads(s.server.threads); err != nil {
			b.Close()
			return nil, err
		}
	}
	s.backends[device] = b
	return b, nil
}

// watchHangUp calls f if the client is gone before stop. The client's kernel tells, even if the client has
// sent more.
func (s *rpcSession) watchHangUp(f func()) (stop func()) {
	const often = 200 * time.Millisecond
	done := make(chan struct{})
	ticker := time.NewTicker(often)
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				if hungUp(s.conn) {
					f()
					return
				}
			}
		}
	}()
	return func() { close(done) }
}

// close frees what the session has.
func (s *rpcSession) close() {
	for device, graphs := range s.graphs {
		for uid := range graphs {
			s.drop(device, uid)
		}
	}
	for _, b := range s.backends {
		if b != nil {
			b.Close()
		}
	}
	for number, b := range s.buffers {
		delete(s.buffers, number)
		s.release(b)
	}
	s.uncharge(s.objects)
}

// endsRPC reports whether an error is the end of a session by the client or by the server, and no fault.
func endsRPC(err error) bool {
	return err == nil || errors.Is(err, errRPCEnd) || errors.Is(err, errRPCStop)
}
