package mpi

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goggml/ggml/internal/testhook"
)

// Grace limits the wait for a sum once the processes are told to stop. Before, the wait for a live process is
// unlimited: it may be computing.
func Grace() time.Duration { return cmp.Or(testhook.MPIGrace, time.Minute) }

// A patience tracks how long this process waits for others.
type patience struct {
	since   atomic.Int64 // start of the current wait in Unix nanoseconds; 0 for none
	behind  atomic.Int64 // a process that the wait is for
	stopAt  atomic.Int64 // time of Stop in Unix nanoseconds; 0 before
	stop    sync.Once
	stopped chan struct{}
}

// Values of behind that are not ranks.
const (
	nobody  = -1 // all have begun the sum: waiting for the network
	joiners = -2 // waiting for processes that have not joined
)

// Stop tells all processes to stop. From then on the wait for a sum is limited.
func (c *Comm) Stop() {
	c.stop.Do(func() {
		c.stopAt.Store(time.Now().UnixNano())
		close(c.stopped)
	})
}

// Stopped returns a channel that is closed once this or another process has called Stop.
func (c *Comm) Stopped() <-chan struct{} { return c.stopped }

// isStopping reports whether Stopped is closed.
func (p *patience) isStopping() bool { return p.stopAt.Load() != 0 }

// wait starts a wait and returns a function that ends it; of concurrent waits the first counts.
func (p *patience) wait() (done func()) {
	if !p.since.CompareAndSwap(0, time.Now().UnixNano()) {
		return func() {}
	}
	return func() { p.since.Store(0) }
}

// left returns the remaining grace of the current wait.
func (p *patience) left() time.Duration {
	return time.Until(time.Unix(0, max(p.stopAt.Load(), p.since.Load())).Add(Grace()))
}

// A Wait describes a wait for another process.
type Wait struct {
	Whom    string
	Current time.Duration // how long it has lasted
	Left    time.Duration // time until it is given up, after Stop; 0 before
}

var current atomic.Pointer[Comm] // Comm of this process

// Waiting returns whom this process waits for, if it waits.
func Waiting() (w Wait, isWaiting bool) {
	c := current.Load()
	if c == nil {
		return w, false
	}
	since := c.since.Load()
	if since == 0 {
		return w, false
	}
	w = Wait{Whom: c.whom(), Current: time.Since(time.Unix(0, since))}
	if c.isStopping() {
		w.Left = max(0, c.left())
	}
	return w, true
}

func (c *Comm) whom() string {
	switch rank := c.behind.Load(); rank {
	case nobody:
		return "the network between the processes"
	case joiners:
		return "processes that have not joined"
	default:
		return c.name(int(rank))
	}
}

// overdue returns an error once a wait has taken too long.
func (c *Comm) overdue() error {
	if !c.isStopping() || c.since.Load() == 0 || c.left() > 0 {
		return nil
	}
	if c.behind.Load() == nobody {
		return fmt.Errorf("a sum that all processes began has not ended %v after they were told to stop: the network between two of them is cut", Grace())
	}
	return fmt.Errorf("%s has not joined the others %v after all were told to stop: it is alive, but makes no progress", c.whom(), Grace())
}
