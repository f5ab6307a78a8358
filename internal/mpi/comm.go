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

// A Comm is this process as a member of a launch. All processes begin its sums and exchanges in the same order;
// each may be waited for by another goroutine.
type Comm struct {
	Rank, Size int
	Library    string // what the library says of itself

	name  func(rank int) string
	begun chan *collective
	leave chan chan error
	gone  chan struct{} // closed when the thread has ended
	lost  chan struct{} // closed when no call can succeed any more

	patience

	mu  sync.Mutex
	err error // why
}

// Options of a Comm; the zero value is usual.
type Options struct {
	// Silence is how long a process may not be heard of; 0 stands for 6 s.
	Silence time.Duration
	// Name gives processes in errors names; nil stands for their ranks.
	Name func(rank int) string
}

const (
	defaultSilence = 6 * time.Second
	beat           = 500 * time.Millisecond // between signs of life
	idle           = 50 * time.Millisecond  // between looks at them
	leastPoll      = 50 * time.Microsecond  // between looks at sums
	mostPoll       = 500 * time.Microsecond
	pollShare      = 16 // of the time that they have taken, after which there is a look
)

// The other processes begin at once on this machine, where those that will not join can be seen: there is a look at them
// now and then. On others they begin as late as the launcher logs in, and the number of looks bounds the wait for them.
const (
	joinLook  = 10 * time.Second
	joinLooks = 3
)

var started atomic.Bool // a Start: a process joins once

// Start joins the processes of a launch. It fails when they do not all join, or ctx ends: MPI cannot be used again.
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

// await waits for the result of joining, unless a process will not join, or does not for long, or ctx ends.
func (l Launch) await(ctx context.Context, joined <-chan error) error {
	const start = "start this program, of one version, in all of them"
	every := cmp.Or(testhook.MPIJoin, joinLook)
	wait := every
	if l.Rank > 0 {
		wait += min(every, time.Second) // rank 0 reports first, if it has begun
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

// Fail joins the processes of a launch, unless this one has joined, so that a launcher or the other processes notice the
// failure by which it ends next: MPICH's launcher ignores the end of a process that has not joined.
func Fail() {
	if l, several := Launched(os.Getenv); several && !started.Load() {
		_, _ = Start(context.Background(), l, Options{})
	}
}

// run is the thread of the library.
func (c *Comm) run(l Launch, o Options, joined chan<- error) {
	runtime.LockOSThread() // and never unlocked: it ends with the goroutine
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
	// Open MPI sums over two or three processes by a tree, which takes twice the traffic of a ring, or four times.
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
		return fmt.Errorf("%w, and the library that was found for them (%s) sees %d: it does not belong to the launcher; %s names another",
			&launchError{l}, c.Library, c.Size, LibraryVariable)
	}
	return nil
}

// Lost is closed when a process was lost, or the library has failed; Err says why.
func (c *Comm) Lost() <-chan struct{} { return c.lost }

// Err is why no call can succeed any more, nil as long as they can.
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

// Close ends the library, once all processes close. After a failure it returns that at once.
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

// A collective is a call of all processes that is under way.
type collective struct {
	kind    C.enum_goggml_mpi_collective
	send    unsafe.Pointer // memory of C, which is freed once it is over
	receive unsafe.Pointer
	n       int // numbers or bytes of each process
	request C.goggml_mpi_handle
	done    chan error
}

// newCollective allocates for n numbers or bytes of a size; what is received has so many parts of them.
func newCollective(kind C.enum_goggml_mpi_collective, n, size, parts int) *collective {
	bytes := max(1, n) * size
	return &collective{kind: kind, send: C.malloc(C.size_t(bytes)), receive: C.malloc(C.size_t(bytes * parts)), n: n, done: make(chan error, 1)}
}

func (s *collective) free() {
	C.free(s.send)
	C.free(s.receive)
}

// call is the function of the library.
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

// await waits until a collective is over.
func (c *Comm) await(s *collective) error {
	defer c.wait()()
	return <-s.done
}

var errClosed = errors.New("MPI is closed")

// A Sum of F32 numbers over all processes.
type Sum struct {
	c *Comm
	s *collective
}

// NewSum makes a sum of so many numbers, which its Input gets before Start.
func (c *Comm) NewSum(n int) *Sum { return &Sum{c, newCollective(C.GOGGML_MPI_SUM_FLOATS, n, 4, 1)} }

// Input are the numbers of this process, as bytes; it ends with Start.
func (s *Sum) Input() []byte { return unsafe.Slice((*byte)(s.s.send), 4*s.s.n) }

// Start begins the sum.
func (s *Sum) Start() { s.c.begin(s.s) }

// Wait waits for the sum, and lets use have it, as bytes.
func (s *Sum) Wait(use func(sum []byte) error) error {
	if err := s.c.await(s.s); err != nil {
		return err // the library may write to it still
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

// AllGather returns the bytes of all processes, by rank, of which each has as many.
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

// Broadcast replaces bytes by those of rank 0, of which all have as many.
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
