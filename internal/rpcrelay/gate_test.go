package rpcrelay

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A gated server notes what passes the gate, and replies to the handshake only.
type gated struct {
	address string
	refused chan error
	ended   chan error
	stop    context.CancelCauseFunc

	mu       sync.Mutex
	requests [][]byte
}

func startGate(t *testing.T, g *Gate) *gated {
	s := &gated{refused: make(chan error, 10), ended: make(chan error, 1)}
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	go s.serve(server)
	front, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = front.Addr().String()
	g.Server = server.Addr().String()
	g.Refused = func(_ net.Addr, err error) { s.refused <- err }
	ctx, stop := context.WithCancelCause(t.Context())
	s.stop = stop
	go func() { s.ended <- g.Serve(ctx, front) }()
	return s
}

func (s *gated) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		for {
			body, err := readRequest(c)
			if err != nil {
				break
			}
			s.mu.Lock()
			s.requests = append(s.requests, body)
			s.mu.Unlock()
			if len(body) == capabilitiesSize {
				c.Write(handshakeReply(Major, Minor))
			}
		}
		c.Close()
	}
}

// greet connects as a client does.
func (s *gated) greet(t *testing.T) net.Conn {
	c, err := net.Dial("tcp", s.address)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	require.Equal(t, handshakeReply(Major, Minor)[8:], request(t, c, hello, make([]byte, capabilitiesSize)))
	return c
}

func TestGateForwards(t *testing.T) {
	s := startGate(t, &Gate{MaxData: 1 << 20})
	c := s.greet(t)
	data := bytes.Repeat([]byte{1, 2, 3}, 300<<10)
	_, err := c.Write(append([]byte{byte(setTensor)}, message(data)...))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	s.greet(t) // after the client before
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.requests, 3)
	require.Equal(t, data, s.requests[1])
}

// Lengths that would end the server, or take all its memory, never reach it.
func TestGateRefusesSizes(t *testing.T) {
	s := startGate(t, &Gate{MaxData: 1 << 20})
	sizes := []uint64{math.MaxUint64, math.MaxInt64, 1 << 40, 8 << 30, 7}
	for cmd := range command(32) {
		for _, size := range sizes {
			c := s.greet(t)
			_, err := c.Write(binary.LittleEndian.AppendUint64([]byte{byte(cmd)}, size))
			require.NoError(t, err)
			_, err = io.ReadAll(c) // until the gate closes it
			require.NoError(t, err, cmd)
			require.Error(t, <-s.refused, cmd)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.requests, 32*len(sizes)) // the handshakes
}

func TestGateSilentClient(t *testing.T) {
	s := startGate(t, &Gate{handshakeTimeout: 500 * time.Millisecond, stallTimeout: 500 * time.Millisecond})
	silent, err := net.Dial("tcp", s.address)
	require.NoError(t, err)
	defer silent.Close()
	c := s.greet(t)
	require.Error(t, <-s.refused)
	_, err = c.Write(binary.LittleEndian.AppendUint64([]byte{byte(allocBuffer)}, 12))
	require.NoError(t, err)
	c = s.greet(t)
	require.ErrorContains(t, <-s.refused, "a message ends early")
	time.Sleep(600 * time.Millisecond) // between messages a client may take its time
	_, err = c.Write(append([]byte{byte(deviceCount)}, message(nil)...))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.requests) == 3
	}, 20*time.Second, time.Millisecond)
}

// Without AnyPeers no client makes the server listen or connect elsewhere.
func TestGatePeers(t *testing.T) {
	body := bytes.Repeat([]byte{1}, 80)
	for any, want := range map[bool][]byte{false: make([]byte, 80), true: body} {
		s := startGate(t, &Gate{AnyPeers: any})
		c := s.greet(t)
		_, err := c.Write(append([]byte{byte(commInit)}, message(body)...))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		s.greet(t)
		require.Equal(t, want, s.requests[1])
	}
}

func TestGateStops(t *testing.T) {
	s := startGate(t, &Gate{})
	c := s.greet(t)
	cause := errors.New("enough")
	s.stop(cause)
	require.ErrorIs(t, <-s.ended, cause)
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = net.Dial("tcp", s.address)
	require.Error(t, err)
}

func TestStopListening(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	require.True(t, Listening(port))
	require.NoError(t, StopListening(port))
	_, err = net.Dial("tcp", l.Addr().String())
	require.Error(t, err)
	require.NoError(t, l.Close())
	require.Error(t, StopListening(port))
}
