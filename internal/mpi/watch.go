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

// A watch makes the calls of the library: it polls sums, and exchanges messages with other processes.
type watch struct {
	*Comm
	Options
	peers    []*peer
	underWay []*collective
	started  uint32     // number of sums that this process has begun
	leaving  chan error // receives the result; nil before Close
	last     time.Time  // last check for messages
	moved    time.Time  // last time that a sum began or ended
}

// A peer is a process that sends heartbeats to this one.
type peer struct {
	rank             int
	bytes            *[2][messageSize]byte // sent and received: C memory
	sending, hearing bool
	sent, heard      C.goggml_mpi_handle
	sentAt           time.Time
	heardAt          time.Time
	said             byte    // kind of the last sent message
	says             message // last received message
}

// A message is a heartbeat between processes.
type message struct {
	kind  byte
	rank  uint32 // the process that is furthest behind, among the sender and the processes that it hears from
	begun uint32 // number of sums that this process has begun
}

const messageSize = 1 + 4 + 4

// Kinds of messages: a process is alive, tells all to stop, or leaves.
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

// newWatch connects rank 0 with every other process.
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
		return // the library may still write to them
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

// end finalises the library. MPICH 4 may block there forever: over UCX a process waits for an acknowledgement of
// another one, which waits elsewhere. All processes have announced by then that they leave, so ending this one loses
// nothing.
func (w *watch) end() {
	timer := time.AfterFunc(w.Silence, func() { w.leaving <- nil })
	w.drain()
	err := callError("MPI_Finalize", C.goggml_mpi_finalize())
	if timer.Stop() {
		w.leaving <- err
	}
}

// drain makes the library progress for a moment, while the other processes do so too: it acknowledges their last
// messages, for which their MPI_Finalize would wait. That makes the block of [watch.end] rare, not impossible: a process
// that is late in MPI_Finalize still finds the others in the launcher's barrier.
func (w *watch) drain() {
	for began := time.Now(); time.Since(began) < drainTime && C.goggml_mpi_progress() == 0; {
		C.goggml_mpi_pause(C.long(leastPoll))
	}
}

// take waits for requests until the next poll or heartbeat.
func (w *watch) take() {
	if len(w.underWay) > 0 || w.leaving != nil {
		select {
		case s := <-w.begun:
			w.begin(s)
		case w.leaving = <-w.leave:
		default:
			C.goggml_mpi_pause(C.long(w.poll())) // a Go timer takes a millisecond in an idle process
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

// poll returns the time until the next poll of sums. It grows with the age of the sums, because a poll takes
// processor time from the processes that they wait for.
func (w *watch) poll() time.Duration {
	return min(max(leastPoll, time.Since(w.moved)/pollShare), mostPoll)
}

// giveUp fails all requests that can no longer be completed.
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
	// A process that was stopped, or got no processor time, has not heard from the others.
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

// furthestBehind returns the message of the process that has begun the fewest sums, among those that this one
// hears from.
func (w *watch) furthestBehind() message {
	least := w.peers[0].says
	for _, p := range w.peers[1:] {
		if p.says.begun < least.begun {
			least = p.says
		}
	}
	return least
}

// awaited returns the process that has not begun the oldest running sum.
func (w *watch) awaited() int64 {
	m := w.furthestBehind()
	if over := w.started - uint32(len(w.underWay)); m.begun > over || int(m.rank) == w.Rank {
		return nobody
	}
	return int64(m.rank)
}

// news returns this process's next message.
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

// test completes finished sums, in the order in which they began: a test makes the library progress with all of
// them.
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
	handle := *request // a copy, because cgo checks all memory that the pointer leads to
	code := C.goggml_mpi_test(&handle, &done)
	*request = handle
	return done != 0, callError(call, code)
}

// exchange sends a heartbeat when it is due, and receives those that have arrived.
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

// allLeft reports whether nothing is in flight between the processes.
func (w *watch) allLeft() bool {
	for _, p := range w.peers {
		if p.sending || !p.told() || !p.left() {
			return false
		}
	}
	return len(w.underWay) == 0
}
