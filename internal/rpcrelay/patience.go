package rpcrelay

import (
	"sync/atomic"
	"time"
)

// A patience is the time limit for a server. While a server computes a graph and is alive there is
// no limit, until Hurry: it may be alive on one connection and mute on the other forever.
type patience struct {
	deadline atomic.Int64 // for graphs, in Unix nanoseconds; 0 means none
	since    atomic.Int64 // start of the current wait, in Unix nanoseconds; 0 means none
	waited   atomic.Int64 // total nanoseconds of waits
}

// Hurry applies the usual time limit to a server that computes a graph, until calm.
func (r *Relay) Hurry() (calm func()) {
	if !r.deadline.CompareAndSwap(0, time.Now().Add(r.stall).UnixNano()) {
		return func() {}
	}
	return func() { r.deadline.Store(0) }
}

// before returns the earlier of t and the deadline.
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

// wait measures the time until done.
func (p *patience) wait() (done func()) {
	began := time.Now()
	p.since.Store(began.UnixNano())
	return func() {
		p.since.Store(0)
		p.waited.Add(int64(time.Since(began)))
	}
}

// A Wait describes the waits for a server.
type Wait struct {
	Endpoint string
	Current  time.Duration // for the current request; 0 means none
	Total    time.Duration // for all answered requests
	Left     time.Duration // until the wait for a graph ends, after HurryAll
	Stall    time.Duration // limit for answers to requests other than graphs
}

// Waits returns the waits for all servers.
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

// HurryAll hurries all servers when the program ends.
func HurryAll() {
	relays.Lock()
	defer relays.Unlock()
	for _, r := range relays.list {
		r.Hurry()
	}
}
