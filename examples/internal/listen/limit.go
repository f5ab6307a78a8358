// Package listen is shared by the programs that serve HTTP: a bound of connections, and which addresses and names are this
// machine's alone.
package listen

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
)

// IsLoopback reports whether only this machine reaches an address.
func IsLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// IsOwnName reports whether the host of a request is an IP address or localhost. Another name may be one that another site
// has pointed at this address, so that its pages can read the answers (DNS rebinding).
func IsOwnName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return name == "localhost" || net.ParseIP(strings.Trim(name, "[]")) != nil
}

// A limited listener limits the number of open connections; further ones wait in the system.
type limited struct {
	net.Listener
	open   chan struct{} // one element per connection
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	idle  list.List // of *limitedConn, the longest idle one first
	wants bool      // Accept waits for a connection to become idle
}

// Limit returns a listener with at most so many open connections; further ones wait in the system.
func Limit(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, open: make(chan struct{}, most), closed: make(chan struct{})}
}

// MakeRoom lets a server on a listener of Limit close idle connections, the longest idle one first, when a new one has no
// slot. A connection is idle while it has no request with a complete header.
func MakeRoom(s *http.Server) {
	next := s.Handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if c, ok := c.(*limitedConn); ok && (state == http.StateNew || state == http.StateIdle) {
			c.setIdle(true)
		}
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*limitedConn); ok {
			c.setIdle(false)
		}
		next.ServeHTTP(w, r)
	})
}

type connKey struct{}

// NumOpen returns the number of open connections.
func (l *limited) NumOpen() int { return len(l.open) }

// Accept waits for a free slot, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	default:
		l.closeIdle()
		select {
		case l.open <- struct{}{}:
			l.hasRoom()
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return &limitedConn{Conn: c, l: l, release: sync.OnceFunc(func() { <-l.open })}, nil
}

// closeIdle closes the longest idle connection, or the next one that becomes idle.
func (l *limited) closeIdle() {
	l.mu.Lock()
	first := l.idle.Front()
	l.wants = first == nil
	l.mu.Unlock()
	if first != nil {
		first.Value.(*limitedConn).Close()
	}
}

// hasRoom takes closeIdle back for connections that become idle later, since one has ended and freed its slot.
func (l *limited) hasRoom() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants = false
}

// Close also ends an Accept that waits for a slot.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A limitedConn occupies a slot until it is closed.
type limitedConn struct {
	net.Conn
	l       *limited
	release func()
	idle    *list.Element // nil: it has a request
}

func (c *limitedConn) setIdle(idle bool) {
	c.l.mu.Lock()
	wanted := idle && c.l.wants
	switch {
	case wanted:
		c.l.wants = false
	case idle && c.idle == nil:
		c.idle = c.l.idle.PushBack(c)
	case !idle && c.idle != nil:
		c.l.idle.Remove(c.idle)
		c.idle = nil
	}
	c.l.mu.Unlock()
	if wanted {
		c.Close()
	}
}

// Close frees the slot.
func (c *limitedConn) Close() error {
	defer c.release()
	c.setIdle(false)
	return c.Conn.Close()
}
