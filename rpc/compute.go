package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
)

// Limits of the graphs kept for GraphRecompute.
const (
	maxGraphs     = 1024      // per device: a client that sends more has forgotten the first ones
	maxGraphBytes = 512 << 20 // all graphs of a client
)

// buildFactor is the memory needed to build a graph, per byte of its message.
const buildFactor = 4

func (s *session) graphCompute(size int) error {
	building := buildFactor * int64(size)
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
func (s *session) receiveGraph(size int) (uid uint64, g *clientGraph, err error) {
	m, err := rpcwire.ReadGraph(size, s.read)
	if err != nil {
		return 0, nil, err
	}
	ctx, stop := s.begin()
	defer stop()
	g, err = s.newGraph(ctx, m)
	return m.UID, g, err
}

// keep stores a graph under its number, and drops older graphs if there are too many.
func (s *session) keep(uid uint64, g *clientGraph) {
	graphs := s.graphs[g.device]
	if len(graphs) >= maxGraphs {
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
	for s.kept > maxGraphBytes && s.dropOldest(g) {
	}
}

func (s *session) drop(device int, uid uint64) {
	g := s.graphs[device][uid]
	delete(s.graphs[device], uid)
	s.kept -= g.bytes
	s.dismiss(g)
}

// dismiss frees a graph that is not kept.
func (s *session) dismiss(g *clientGraph) {
	g.c.Close()
	s.uncharge(g.bytes)
}

// dropOldest drops the least recently used graph other than except; it returns false if there is
// none.
func (s *session) dropOldest(except *clientGraph) bool {
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

func (s *session) graphRecompute(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	uid := binary.LittleEndian.Uint64(body[4:])
	g := s.graphs[d.index][uid]
	if g == nil {
		return fmt.Errorf("the client has no graph %d; it was dropped, or never sent", uid)
	}
	return s.compute(g)
}

// compute computes the stages of a graph in order.
func (s *session) compute(g *clientGraph) error {
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
		if stage.g == nil {
			continue
		}
		if err := s.reserveWork(b, g.device, stage); err != nil {
			return err
		}
		if err := b.Compute(ctx, stage.g); err != nil {
			return err
		}
	}
	return nil
}

// begin begins work that ends early if the client disconnects.
func (s *session) begin() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	finished, unwatch := s.computes(), s.watchHangUp(func() { cancel(errEnd) })
	return ctx, func() {
		unwatch()
		finished()
		cancel(nil)
	}
}

// reserveWork reserves the scratch memory that the CPU backend and native ops allocate for a graph and keep.
func (s *session) reserveWork(b *ggml.Backend, device int, of stage) error {
	n, err := b.WorkBytes(of.g)
	if err != nil {
		return err
	}
	n += of.scratch * int64(s.server.threads)
	if more := n - s.work[device]; more > 0 {
		if err := s.charge(more); err != nil {
			return err
		}
		s.work[device] += more
	}
	return nil
}

// backend returns the session's own backend on a device.
func (s *session) backend(device int) (*ggml.Backend, error) {
	if b := s.backends[device]; b != nil {
		return b, nil
	}
	d := s.server.devices[device]
	b, err := d.NewBackend()
	if err != nil {
		return nil, err
	}
	if d.Type() == ggml.CPU {
		if err := b.SetThreads(s.server.threads); err != nil {
			b.Close()
			return nil, err
		}
	}
	s.backends[device] = b
	return b, nil
}

// watchHangUp calls f if the client disconnects before stop. The kernel reports it even if the
// client has sent more data.
func (s *session) watchHangUp(f func()) (stop func()) {
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

// close frees all resources of the session.
func (s *session) close() {
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

// ends reports whether an error is the regular end of a session, by the client or the server.
func ends(err error) bool {
	return err == nil || errors.Is(err, errEnd) || errors.Is(err, errStop)
}
