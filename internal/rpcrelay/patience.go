package rpcrelay

import (
	"sync/atomic"
	"time"
)

// A patience is how long a server is waited for. One that is at a graph, and lives, has any time, until somebody has
// asked for the end: it may be alive on one connection and mute on the other for ever.
type patience struct {
	deadline atomic.Int64 // for graphs, in Unix nanoseconds; 0 for none
	since    atomic.Int64 // when the current wait began, likewise
	waited   atomic.Int64 // nanoseconds of all waits
}

// Hurry gives a server that is at a graph as long as one may take that is at none, until calm.
func (r *Relay) Hurry() (calm func()) {
	if !r.deadline.CompareAndSwap(0, time.Now().Add(r.stall).UnixNano()) {
		return func() {}
	}
	return func() { r.deadline.Store(0) }
}

// before returns t, or the deadline if that comes earlier.
func (p *patience) before(t time.Time) time.Time {
	if d := p.deadline.Load(); d > time.Now().UnixNano() && d < t.UnixNano() {
		return time.Unix(0, d)
	}
	return t
}

// isOver reports whether the deadline has passed.
func (p *patience) isOver() bool {
	d := p.deadline.Load()
	return d > 0 && d <= time.Now().UnixNano()
}

// wait counts the time until done.
func (p *patience) wait() (done func()) {
	began := time.Now()
	p.since.Store(began.UnixNano())
	return func() {
		p.since.Store(0)
		p.waited.Add(int64(time.Since(began)))
	}
}

// A Wait is for a server.
type Wait struct {
	Endpoint string
	Current  time.Duration // of the request that it has not answered yet; 0 for none
	Total    time.Duration // of those that it has
	Left     time.Duration // until the wait for a graph ends, after HurryAll
	Stall    time.Duration // for an answer to anything but a graph
}

// Waits are those for all servers.
func Waits() (list []Wait) {
	relays.Lock()
	defer relays.Unlock()
	for _, r := range relays.list {
		w := Wait{Endpoint: r.Endpoint, Total: time.Duration(r.waited.Load()), Stall: r.stall}
		if since := r.since.Load(); since > 0 {
			w.Current = time.Since(time.Unix(0, since))
		}
		if d := r.deadline.Load(); d > 0 {
			w.Left = max(0, time.Until(time.Unix(0, d)))
		}
		list = append(list, w)
	}
	return list
}

// HurryAll hurries all servers, as the program ends.
func HurryAll() {
	relays.Lock()
	defer relays.Unlock()
	for _, r := range relays.list {
		r.Hurry()
	}
}
