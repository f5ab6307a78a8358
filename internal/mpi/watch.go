package mpi

// #include "mpi.h"
// #include <stdlib.h>
import "C"

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"
)

// A watch makes the calls of the library: it looks after sums, and hears from other processes.
type watch struct {
	*Comm
	Options
	peers    []*peer
	underWay []*collective
	started  uint32     // sums that this process has begun
	leaving  chan error // gets the result; nil before Close
	last     time.Time  // look at the peers
	moved    time.Time  // when a sum has begun or ended
}

// A peer is a process that is heard from.
type peer struct {
	rank             int
	bytes            *[2][messageSize]byte // sent and received: memory of C
	sending, hearing bool
	sent, heard      C.goggml_mpi_handle
	sentAt           time.Time
	heardAt          time.Time
	said             byte    // the last kind that was sent
	says             message // that came last
}

// A message is a heartbeat between processes.
type message struct {
	kind  byte
	rank  uint32 // the process that is furthest behind of those that the sender hears from, and of itself
	begun uint32 // sums that it has begun
}

const messageSize = 1 + 4 + 4

// Kinds of messages: a process lives, is to stop as all are, or leaves.
const (
	alive    = 1
	leaving  = 2
	stopping = 3
)

func (m message) write(b *[messageSize]byte) {
	b[0] = m.kind
	binary.LittleEndian.PutUint32(b[1:], m.rank)
	binary.LittleEndian.PutUint32(b[5:], m.begun)
}

func (m *message) read(b *[messageSize]byte) {
	*m = message{b[0], binary.LittleEndian.Uint32(b[1:]), binary.LittleEndian.Uint32(b[5:])}
}

func (p *peer) told() bool { return p.said == leaving }
func (p *peer) left() bool { return p.says.kind == leaving }

// newWatch lets rank 0 hear from all, and all from rank 0.
func newWatch(c *Comm, o Options) *watch {
	w := &watch{Comm: c, Options: o, last: time.Now()}
	from, to := 0, 1
	if c.Rank == 0 {
		from, to = 1, c.Size
	}
	for rank := from; rank < to; rank++ {
		w.peers = append(w.peers, &peer{
			rank: rank, bytes: (*[2][messageSize]byte)(C.malloc(2 * messageSize)), heardAt: w.last, says: message{rank: uint32(rank)},
		})
	}
	return w
}

func (w *watch) free() {
	if w.Err() != nil {
		return // the library may write to them still
	}
	for _, p := range w.peers {
		C.free(unsafe.Pointer(p.bytes))
	}
}

// run works until all processes leave.
func (w *watch) run() {
	for {
		w.take()
		if w.Err() == nil {
			if err := w.look(); err != nil {
				w.fail(err)
			}
		}
		if err := w.Err(); err != nil {
			w.giveUp(err)
			return
		}
		if w.leaving != nil && w.allLeft() {
			w.end()
			return
		}
	}
}

// end leaves the library. MPICH 4 may wait there for ever: over UCX a process waits for what another one, which waits for
// it elsewhere, no longer reads. All have said by then that they leave, so that nothing is lost when this one goes.
func (w *watch) end() {
	timer := time.AfterFunc(w.Silence, func() { w.leaving <- nil })
	err := callError("MPI_Finalize", C.goggml_mpi_finalize())
	if timer.Stop() {
		w.leaving <- err
	}
}

// take waits for something to do, for as long as it may.
func (w *watch) take() {
	if len(w.underWay) > 0 || w.leaving != nil {
		select {
		case s := <-w.begun:
			w.begin(s)
		case w.leaving = <-w.leave:
		default:
			C.goggml_mpi_pause(C.long(w.poll())) // a timer of Go's takes a millisecond where nothing else runs
		}
		return
	}
	timer := time.NewTimer(idle)
	defer timer.Stop()
	select {
	case s := <-w.begun:
		w.begin(s)
	case w.leaving = <-w.leave:
	case <-timer.C:
	}
}

func (w *watch) begin(s *collective) {
	if err := callError(s.call(), C.goggml_mpi_begin(s.kind, s.send, s.receive, C.int(s.n), &s.request)); err != nil {
		w.fail(err)
	}
	w.underWay, w.started, w.moved = append(w.underWay, s), w.started+1, time.Now()
}

// poll is how long to wait before the next look at sums: the longer they have taken the longer, for each look takes time
// of a processor that the processes they wait for may want.
func (w *watch) poll() time.Duration {
	return min(max(leastPoll, time.Since(w.moved)/pollShare), mostPoll)
}

// giveUp ends what cannot be done any more.
func (w *watch) giveUp(err error) {
	for _, s := range w.underWay {
		s.done <- err
	}
	if w.leaving != nil {
		w.leaving <- err
	}
}

func (w *watch) look() error {
	if err := w.test(); err != nil {
		return err
	}
	now := time.Now()
	if len(w.underWay) > 0 && now.Sub(w.last) < idle && w.leaving == nil {
		return nil
	}
	// A process that was stopped itself, or had no processor, has not heard from the others.
	if pause := now.Sub(w.last); pause > time.Second {
		for _, p := range w.peers {
			p.heardAt = p.heardAt.Add(pause)
		}
	}
	w.last = now
	for _, p := range w.peers {
		if err := w.exchange(p, now); err != nil {
			return err
		}
		if silent := now.Sub(p.heardAt); silent > w.Silence && !p.left() {
			return fmt.Errorf("%s has not been heard of for %.0f s: it has died, it was stopped, or the network is cut", w.Name(p.rank), silent.Seconds())
		}
	}
	w.behind.Store(w.awaited())
	return w.overdue()
}

// furthestBehind returns the process that has begun the fewest sums of those that are heard from.
func (w *watch) furthestBehind() message {
	least := w.peers[0].says
	for _, p := range w.peers[1:] {
		if p.says.begun < least.begun {
			least = p.says
		}
	}
	return least
}

// awaited is the process that has not begun the sum that is under way first.
func (w *watch) awaited() int64 {
	m := w.furthestBehind()
	if over := w.started - uint32(len(w.underWay)); m.begun > over || int(m.rank) == w.Rank {
		return nobody
	}
	return int64(m.rank)
}

// news returns this process's message to others.
func (w *watch) news() message {
	m := message{kind: alive, rank: uint32(w.Rank), begun: w.started}
	if least := w.furthestBehind(); w.Rank == 0 && least.begun < m.begun {
		m.rank, m.begun = least.rank, least.begun
	}
	switch {
	case w.leaving != nil:
		m.kind = leaving
	case w.isStopping():
		m.kind = stopping
	}
	return m
}

// test ends the sums that are over, in the order in which they have begun: a test lets the library go on with all.
func (w *watch) test() error {
	for len(w.underWay) > 0 {
		s := w.underWay[0]
		if done, err := isDone(s.call(), &s.request); !done || err != nil {
			return err
		}
		s.done <- nil
		w.underWay, w.moved = w.underWay[1:], time.Now()
	}
	return nil
}

func isDone(call string, request *C.goggml_mpi_handle) (bool, error) {
	var done C.int
	handle := *request // a copy, because cgo checks all memory that a pointer leads into
	code := C.goggml_mpi_test(&handle, &done)
	*request = handle
	return done != 0, callError(call, code)
}

// exchange sends a sign of life when it is time, and takes those that have come.
func (w *watch) exchange(p *peer, now time.Time) error {
	if p.sending {
		done, err := isDone("MPI_Isend", &p.sent)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name(p.rank), err)
		}
		p.sending = !done
	}
	if m := w.news(); !p.sending && !p.told() && (m.kind != p.said || now.Sub(p.sentAt) >= beat) {
		m.write(&p.bytes[0])
		if err := callError("MPI_Isend", C.goggml_mpi_send(chars(&p.bytes[0]), messageSize, C.int(p.rank), &p.sent)); err != nil {
			return fmt.Errorf("%s: %w", w.Name(p.rank), err)
		}
		p.sending, p.sentAt, p.said = true, now, m.kind
	}
	for !p.left() {
		if !p.hearing {
			if err := callError("MPI_Irecv", C.goggml_mpi_receive(chars(&p.bytes[1]), messageSize, C.int(p.rank), &p.heard)); err != nil {
				return fmt.Errorf("%s: %w", w.Name(p.rank), err)
			}
			p.hearing = true
		}
		done, err := isDone("MPI_Irecv", &p.heard)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name(p.rank), err)
		}
		if !done {
			return nil
		}
		p.hearing, p.heardAt = false, now
		p.says.read(&p.bytes[1])
		if p.says.kind == stopping {
			w.Stop()
		}
	}
	return nil
}

func chars(b *[messageSize]byte) *C.char { return (*C.char)(unsafe.Pointer(b)) }

// allLeft reports whether nothing is under way between the processes.
func (w *watch) allLeft() bool {
	for _, p := range w.peers {
		if p.sending || !p.told() || !p.left() {
			return false
		}
	}
	return len(w.underWay) == 0
}
