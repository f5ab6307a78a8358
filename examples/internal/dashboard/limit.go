package dashboard

import (
	"net"
	"sync"
)

// maxConnections bounds the files and the memory that browsers take of a process that trains.
const maxConnections = 32

// A limited listener accepts connections up to a number; further ones wait in the system until one is closed.
type limited struct {
	net.Listener
	open   chan struct{} // an element for each connection
	closed chan struct{}
	once   sync.Once
}

func limit(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, open: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept waits for a connection, and before that for its place.
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

// Close ends Accept, too, where it waits for a place.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A limitedConn has a place until it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

// Close gives the place to another connection.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
