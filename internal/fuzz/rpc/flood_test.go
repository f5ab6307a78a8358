package rpc

import (
	"net"
	"testing"
	"time"

	"github.com/goggml/ggml/internal/test/need"
)

// A server that has no file descriptor for another client serves the others, and accepts clients again when it
// has one.
func TestFlood(t *testing.T) {
	t.Setenv(filesEnv, "32")
	s := start(t, usual)
	first := s.dial(t)
	var flood []net.Conn
	for range 64 {
		conn := need.Value(net.DialTimeout("tcp4", s.endpoint, time.Minute))(t)
		flood = append(flood, conn)
	}
	s.says(t, "cannot accept clients; trying again")
	first.served()
	for _, conn := range flood {
		conn.Close()
	}
	s.dial(t).served()
}
