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
	maxRPCGraphs       = 1024    // of a device: by then a client forgets those that it has sent
	maxRPCGraphTensors = 1 << 20 // of all graphs of a client; each takes some 500 bytes
)

func (s *rpcSession) graphCompute(size int) error {
	body := make([]byte, size)
	if err := s.read(body); err != nil {
		return err
	}
	m, err := rpcwire.DecodeGraph(body)
	if err != nil {
		return err
	}
	g, err := s.newRPCGraph(m)
	if err != nil {
		return err
	}
	if m.UID == 0 {
		defer g.close()
	} else {
		s.keep(m.UID, g)
	}
	return s.compute(g)
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
	s.tensors += g.tensors
	for s.tensors > maxRPCGraphTensors && s.dropOldest(g) {
	}
}

func (s *rpcSession) drop(device int, uid uint64) {
	g := s.graphs[device][uid]
	delete(s.graphs[device], uid)
	s.tensors -= g.tensors
	g.close()
}

// dropOldest drops the graph, other than one, that was not used for longest; false when there is none.
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
	b, err := s.backend(g.device)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	defer s.computes()()
	defer s.watchHangUp(func() { cancel(errRPCEnd) })()
	defer func(begin time.Time) { s.stats.computing += time.Since(begin) }(time.Now())
	s.stats.graphs++
	for _, stage := range g.stages {
		for _, l := range stage.lookups {
			if err := l.check(); err != nil {
				return err
			}
		}
		if stage.g.g == nil || C.ggml_graph_n_nodes(stage.g.g) == 0 {
			continue
		}
		if err := b.Compute(ctx, stage.g); err != nil {
			return err
		}
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

// watchHangUp calls f if the client is gone before stop, which its kernel tells even where it has sent more.
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
}

// endsRPC reports whether an error is the end of a session by the client or by the server, and no fault.
func endsRPC(err error) bool {
	return err == nil || errors.Is(err, errRPCEnd) || errors.Is(err, errRPCStop)
}
