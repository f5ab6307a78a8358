// Package listen is shared by the programs that serve HTTP: a bound of connections, and which addresses and names are this
// machine's alone.
package listen

import (
	"net"
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
}

// Limit returns a listener with at most so many open connections; further ones wait in the system.
func Limit(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, open: make(chan struct{}, most), closed: make(chan struct{})}
}

// NumOpen returns the number of open connections.
func (l *limited) NumOpen() int { return len(l.open) }

// Accept waits for a free slot, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.open })}, nil
}

// Close also ends an Accept that waits for a slot.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A limitedConn occupies a slot until it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

// Close frees the slot.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
