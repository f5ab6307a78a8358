// Package loopback provides servers of tests on this machine.
package loopback

import (
	"io"
	"net"
	"testing"

	"github.com/goggml/ggml/internal/test/need"
)

// Serve listens on a free port. It calls handle for each connection, in a goroutine, and closes the connection when
// handle returns. The listener is closed at the end of the test, if not earlier.
func Serve(t testing.TB, handle func(c net.Conn)) net.Listener {
	t.Helper()
	l := need.Value(net.Listen("tcp4", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	return l
}

// Answer returns a handler that sends the next of the answers whenever a client has sent something. At an answer that is
// nil it waits for the client to leave.
func Answer(answers ...[]byte) func(c net.Conn) {
	return func(c net.Conn) {
		for _, answer := range answers {
			if _, err := c.Read(make([]byte, 1<<10)); err != nil {
				return
			}
			if answer == nil {
				io.Copy(io.Discard, c)
			}
			c.Write(answer)
		}
	}
}
