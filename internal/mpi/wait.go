package mpi

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goggml/ggml/internal/testhook"
)

// Grace is how long a sum is waited for once the processes are to stop. Before, one that lives has any time: it may
// compute.
func Grace() time.Duration { return cmp.Or(testhook.MPIGrace, time.Minute) }

// A patience is how long this process waits for others.
type patience struct {
	since   atomic.Int64 // when the current wait began, in Unix nanoseconds; 0 for none
	behind  atomic.Int64 // the process that is waited for, or one of these
	stopAt  atomic.Int64 // when Stop was called, likewise; 0 before
	stop    sync.Once
	stopped chan struct{}
}

// Values of behind that are no rank.
const (
	nobody  = -1 // all have begun the sum: the network is waited for
	joiners = -2 // processes that have not joined
)

// Stop tells all processes to stop. From then on the wait for a sum is bounded.
func (c *Comm) Stop() {
	c.stop.Do(func() {
		c.stopAt.Store(time.Now().UnixNano())
		close(c.stopped)
	})
}

// Stopped is closed when this or another process has called Stop.
func (c *Comm) Stopped() <-chan struct{} { return c.stopped }

// isStopping reports whether Stopped is closed.
func (p *patience) isStopping() bool { return p.stopAt.Load() != 0 }

// wait counts a wait until done; of several at once the first.
func (p *patience) wait() (done func()) {
	if !p.since.CompareAndSwap(0, time.Now().UnixNano()) {
		return func() {}
	}
	return func() { p.since.Store(0) }
}

// left returns the rest of the grace of the current wait.
func (p *patience) left() time.Duration {
	return time.Until(time.Unix(0, max(p.stopAt.Load(), p.since.Load())).Add(Grace()))
}

// A Wait is for another process.
type Wait struct {
	Whom    string
	Current time.Duration // how long it has taken
	Left    time.Duration // until it ends, after Stop; 0 before
}

var current atomic.Pointer[Comm] // of this process

// Waiting returns for whom this process waits, if it does.
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

// overdue is the error of a wait that has taken too long, nil as long as it has not.
func (c *Comm) overdue() error {
	if !c.isStopping() || c.since.Load() == 0 || c.left() > 0 {
		return nil
	}
	if c.behind.Load() == nobody {
		return fmt.Errorf("a sum that all processes have begun is not over %v after they were to stop: the network between two of them is cut", Grace())
	}
	return fmt.Errorf("%s has not come to what the others wait for, %v after all were to stop: it lives, but does not go on", c.whom(), Grace())
}
