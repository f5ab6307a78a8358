package mpi

// #include "mpi.h"
// #include <stdlib.h>
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goggml/ggml/internal/testhook"
)

// A Comm is this process as a member of a launch. All processes must begin its sums and exchanges in the same
// order; another goroutine may wait for each.
type Comm struct {
	Rank, Size int
	Library    string // the library's description of itself

	name  func(rank int) string
	begun chan *collective
	leave chan chan error
	gone  chan struct{} // closed when the thread has ended
	lost  chan struct{} // closed when no call can succeed any more

	patience

	mu  sync.Mutex
	err error // the reason
}

// Options of a Comm; the zero value has the defaults.
type Options struct {
	// Silence is how long a process may stay silent; 0 stands for 6 s.
	Silence time.Duration
	// Name returns the name of a process for errors; nil stands for ranks.
	Name func(rank int) string
}

const (
	defaultSilence = 6 * time.Second
	beat           = 500 * time.Millisecond // between heartbeats
	idle           = 50 * time.Millisecond  // between checks for heartbeats
	leastPoll      = 50 * time.Microsecond  // between polls of sums
	drainTime      = 50 * time.Millisecond  // for the last messages of all processes
	mostPoll       = 500 * time.Microsecond
	pollShare      = 16 // a sum is polled after 1/pollShare of the time since its start
)

// On this machine the other processes start immediately, and those that will not join can be detected, so they
// are checked regularly. On other machines they start as late as the launcher logs in, and the number of checks
// limits the wait.
const (
	joinLook  = 10 * time.Second
	joinLooks = 3
)

var started atomic.Bool // Start was called: a process joins once

// Start joins the processes of a launch. If they do not all join, or ctx ends, it fails, and MPI cannot be used
// again.
func Start(ctx context.Context, l Launch, o Options) (*Comm, error) {
	started.Store(true)
	if o.Silence == 0 {
		o.Silence = defaultSilence
	}
	if o.Name == nil {
		o.Name = func(rank int) string { return fmt.Sprintf("rank %d", rank) }
	}
	c := &Comm{name: o.Name, begun: make(chan *collective), leave: make(chan chan error), gone: make(chan struct{}), lost: make(chan struct{})}
	c.stopped = make(chan struct{})
	c.behind.Store(joiners)
	current.Store(c)
	defer c.wait()()
	joined := make(chan error, 1)
	go c.run(l, o, joined)
	if err := l.await(ctx, joined); err != nil {
		return nil, err
	}
	return c, nil
}

// await waits for the result of joining. It fails if a process will not join or takes too long, or if ctx ends.
func (l Launch) await(ctx context.Context, joined <-chan error) error {
	const start = "start this program, of one version, in all of them"
	every := cmp.Or(testhook.MPIJoin, joinLook)
	wait := every
	if l.Rank > 0 {
		wait += min(every, time.Second) // rank 0 reports first, if it has started
	}
	for looks := 1; ; looks++ {
		timer := time.NewTimer(wait)
		select {
		case err := <-joined:
			timer.Stop()
			return err
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
		fault, willJoin := l.missing()
		switch {
		case fault != "":
			return fmt.Errorf("%w, and %s: %s", &launchError{l}, fault, start)
		case looks >= joinLooks && !willJoin:
			return fmt.Errorf("%w, and they have not all joined within %v: one of them runs another program, has ended, or is cut off by the network; %s",
				&launchError{l}, joinLooks*every, start)
		}
		wait = every
	}
}

// Fail joins the processes of a launch, unless this one has joined, so that the launcher or the other processes
// notice the failure with which it ends next: MPICH's launcher ignores the end of a process that has not
// joined.
func Fail() {
	if l, several := Launched(os.Getenv); several && !started.Load() {
		_, _ = Start(context.Background(), l, Options{})
	}
}

// run is the thread that calls the library.
func (c *Comm) run(l Launch, o Options, joined chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	err := c.start(l)
	joined <- err
	if err == nil {
		w := newWatch(c, o)
		w.run()
		w.free()
	}
	close(c.gone)
}

func (c *Comm) start(l Launch) (err error) {
	if c.Library, err = l.open(); err != nil {
		return err
	}
	// Open MPI sums over two or three processes by a tree, which has two or four times the traffic of a ring.
	const algorithm, ring = "OMPI_MCA_coll_libnbc_iallreduce_algorithm", "1"
	if _, chosen := os.LookupEnv(algorithm); !chosen && l.OpenMPI && l.Size < 4 {
		os.Setenv(algorithm, ring)
	}
	if err := callError("MPI_Init_thread", C.goggml_mpi_init()); err != nil {
		return err
	}
	var rank, size C.int
	if err := callError("MPI_Comm_rank", C.goggml_mpi_place(&rank, &size)); err != nil {
		return err
	}
	c.Rank, c.Size = int(rank), int(size)
	if l.Size > 0 && c.Size != l.Size {
		return fmt.Errorf("%w, but the library found for them (%s) sees %d: it does not belong to the launcher; %s can name another",
			&launchError{l}, c.Library, c.Size, LibraryVariable)
	}
	return nil
}

// Lost returns a channel that is closed when a process was lost or the library has failed; Err has the reason.
func (c *Comm) Lost() <-chan struct{} { return c.lost }

// Err returns the reason for which no call can succeed any more, or nil.
func (c *Comm) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Comm) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.lost)
	}
}

// Close finalises the library, once all processes call it. After a failure it returns the failure immediately.
func (c *Comm) Close() error {
	left := make(chan error, 1)
	select {
	case c.leave <- left:
		return <-left
	case <-c.lost:
		return c.Err()
	case <-c.gone:
		return nil
	}
}

// A collective is a running call of all processes.
type collective struct {
	kind    C.enum_goggml_mpi_collective
	send    unsafe.Pointer // C memory, freed after the call
	receive unsafe.Pointer
	n       int // numbers or bytes per process
	request C.goggml_mpi_handle
	done    chan error
}

// newCollective allocates n numbers or bytes of a size; the receive buffer has parts times as many.
func newCollective(kind C.enum_goggml_mpi_collective, n, size, parts int) *collective {
	bytes := max(1, n) * size
	return &collective{kind: kind, send: C.malloc(C.size_t(bytes)), receive: C.malloc(C.size_t(bytes * parts)), n: n, done: make(chan error, 1)}
}

func (s *collective) free() {
	C.free(s.send)
	C.free(s.receive)
}

// call returns the name of the library function.
func (s *collective) call() string {
	switch s.kind {
	case C.GOGGML_MPI_GATHER:
		return "MPI_Iallgather"
	case C.GOGGML_MPI_BROADCAST:
		return "MPI_Ibcast"
	}
	return "MPI_Iallreduce"
}

func (c *Comm) begin(s *collective) {
	select {
	case c.begun <- s:
	case <-c.lost:
		s.done <- c.Err()
	case <-c.gone:
		s.done <- errClosed
	}
}

// await waits for the end of a collective.
func (c *Comm) await(s *collective) error {
	defer c.wait()()
	return <-s.done
}

var errClosed = errors.New("MPI is closed")

// A Sum adds F32 numbers over all processes.
type Sum struct {
	c *Comm
	s *collective
}

// NewSum returns a sum of n numbers; fill its Input before Start.
func (c *Comm) NewSum(n int) *Sum { return &Sum{c, newCollective(C.GOGGML_MPI_SUM_FLOATS, n, 4, 1)} }

// Input returns the numbers of this process as bytes, valid until Start.
func (s *Sum) Input() []byte { return unsafe.Slice((*byte)(s.s.send), 4*s.s.n) }

// Start starts the sum.
func (s *Sum) Start() { s.c.begin(s.s) }

// Wait waits for the sum, and passes it to use as bytes.
func (s *Sum) Wait(use func(sum []byte) error) error {
	if err := s.c.await(s.s); err != nil {
		return err // the library may still write to it
	}
	defer s.s.free()
	return use(unsafe.Slice((*byte)(s.s.receive), 4*s.s.n))
}

// AllReduce replaces numbers by their sums over all processes.
func (c *Comm) AllReduce(x []float64) error {
	s := newCollective(C.GOGGML_MPI_SUM_DOUBLES, len(x), 8, 1)
	copy(unsafe.Slice((*float64)(s.send), len(x)), x)
	c.begin(s)
	if err := c.await(s); err != nil {
		return err
	}
	defer s.free()
	copy(x, unsafe.Slice((*float64)(s.receive), len(x)))
	return nil
}

// AllGather returns the bytes of all processes, by rank. All have the same number of bytes.
func (c *Comm) AllGather(own []byte) ([][]byte, error) {
	s := newCollective(C.GOGGML_MPI_GATHER, len(own), 1, c.Size)
	copy(unsafe.Slice((*byte)(s.send), len(own)), own)
	c.begin(s)
	if err := c.await(s); err != nil {
		return nil, err
	}
	defer s.free()
	all := slices.Clone(unsafe.Slice((*byte)(s.receive), len(own)*c.Size))
	list := make([][]byte, c.Size)
	for rank := range list {
		list[rank] = all[len(own)*rank : len(own)*(rank+1)]
	}
	return list, nil
}

// Broadcast replaces bytes by the bytes of rank 0. All have the same number of bytes.
func (c *Comm) Broadcast(x []byte) error {
	s := newCollective(C.GOGGML_MPI_BROADCAST, len(x), 1, 1)
	copy(unsafe.Slice((*byte)(s.receive), len(x)), x)
	c.begin(s)
	if err := c.await(s); err != nil {
		return err
	}
	defer s.free()
	copy(x, unsafe.Slice((*byte)(s.receive), len(x)))
	return nil
}
