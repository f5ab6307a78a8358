package dashboard

import (
	"net"
	"sync"
)

// maxConnections limits the files and memory that browsers take from a process that trains.
const maxConnections = 32

// A limited listener limits the number of open connections; further ones wait in the system.
type limited struct {
	net.Listener
	open   chan struct{} // one element per connection
	closed chan struct{}
	once   sync.Once
}

func limit(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, open: make(chan struct{}, most), closed: make(chan struct{})}
}

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
