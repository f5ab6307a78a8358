package rpcrelay

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server replies to each connection with what it is told to, then closes it.
func startServer(t *testing.T, replies ...[]byte) (endpoint string) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			for _, reply := range replies {
				if _, err := readRequest(c); err != nil {
					break
				}
				c.Write(reply)
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}

func readRequest(c net.Conn) ([]byte, error) {
	var header [9]byte
	if _, err := io.ReadFull(c, header[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.LittleEndian.Uint64(header[1:]))
	_, err := io.ReadFull(c, body)
	return body, err
}

func message(body []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(body))), body...)
}

func handshakeReply(major, minor byte) []byte {
	return message(append([]byte{major, minor, 0, 0}, make([]byte, capabilitiesSize)...))
}

func number(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func start(t *testing.T, endpoint string) *Relay {
	r, err := New(endpoint, "9.9.9")
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// dial connects as ggml's client does, which takes every handshake for good.
func dial(t *testing.T, r *Relay) net.Conn {
	c, err := net.Dial("tcp", r.Address)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.Equal(t, handshakeReply(Major, Minor)[8:], request(t, c, hello, make([]byte, capabilitiesSize)))
	return c
}

func request(t *testing.T, c net.Conn, cmd command, body []byte) []byte {
	_, err := c.Write(append([]byte{byte(cmd)}, message(body)...))
	require.NoError(t, err)
	var header [8]byte
	_, err = io.ReadFull(c, header[:])
	require.NoError(t, err)
	reply := make([]byte, binary.LittleEndian.Uint64(header[:]))
	_, err = io.ReadFull(c, reply)
	require.NoError(t, err)
	return reply
}

func TestForward(t *testing.T) {
	data := make([]byte, 600<<10) // more than the buffer of a connection
	for i := range data {
		data[i] = byte(i * 7)
	}
	r := start(t, startServer(t, handshakeReply(Major, Minor), message(number(64)), message(data)))
	c := dial(t, r)
	require.Equal(t, number(64), request(t, c, getAlignment, number(0)))
	require.Equal(t, data, request(t, c, getTensor, append(make([]byte, 300), number(uint64(len(data)))...)))
	require.NoError(t, r.Err())
}

// After a failure the client gets replies of the sizes that it expects, until a new handshake succeeds.
func TestSynthesize(t *testing.T) {
	r := start(t, startServer(t, handshakeReply(Major, Minor), message(number(64))))
	c := dial(t, r)
	require.Equal(t, number(64), request(t, c, getAlignment, number(0)))
	require.NoError(t, r.Err())
	require.Equal(t, number(4096), request(t, c, getAlignment, number(0)))
	require.Error(t, r.Err())
	require.Equal(t, make([]byte, 5), request(t, c, getTensor, append(make([]byte, 300), number(5)...)))
	require.Equal(t, make([]byte, 12), request(t, c, getTensor2D, append(make([]byte, 300), append(number(4), append(number(3), number(0)...)...)...)))
	require.Equal(t, []byte{1}, request(t, c, setTensorHash, number(0)))
	require.Equal(t, make([]byte, 16), request(t, c, allocBuffer, number(0)))

	again := dial(t, r)
	require.NoError(t, r.Err())
	require.Equal(t, number(64), request(t, again, getAlignment, number(0)))
}

// Replies that end too early, and those that would end the process, are failures.
func TestBadReplies(t *testing.T) {
	for name, c := range map[string]struct {
		cmd         command
		reply, want []byte
	}{
		"short data":            {getTensor, append(number(8), 1, 2, 3), make([]byte, 8)},
		"short alignment":       {getAlignment, append(number(8), 64, 0, 0), number(4096)},
		"alignment of 0":        {getAlignment, message(number(0)), number(4096)},
		"alignment of 3":        {getAlignment, message(number(3)), number(4096)},
		"memory at 0":           {bufferGetBase, message(number(0)), number(4096)},
		"a million devices":     {deviceCount, message(number(1_000_000)[:4]), make([]byte, 4)},
		"another size of reply": {getMaxSize, message(number(1)[:4]), number(1 << 62)},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, startServer(t, handshakeReply(Major, Minor), c.reply))
			require.Equal(t, c.want, request(t, dial(t, r), c.cmd, append(make([]byte, 300), number(8)...)))
			require.Error(t, r.Err())
		})
	}
}

// A server that stalls after the handshake is gone, unless it is at a graph.
func TestStall(t *testing.T) {
	silent := make(chan []byte)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			readRequest(c)
			c.Write(handshakeReply(Major, Minor))
			go io.Copy(io.Discard, c)
			go func() { c.Write(<-silent) }()
		}
	}()
	r := start(t, l.Addr().String())
	r.stallTimeout = 100 * time.Millisecond
	require.Equal(t, number(4096), request(t, dial(t, r), getAlignment, number(0)))
	require.EqualError(t, r.Err(), "it has not answered for 100ms")

	c := dial(t, r)
	_, err = c.Write(append([]byte{byte(graphCompute)}, message(make([]byte, 20))...))
	require.NoError(t, err)
	time.AfterFunc(300*time.Millisecond, func() {
		reply := message(number(7))
		silent <- reply // of the first connection, which is closed
		silent <- reply
	})
	require.Equal(t, number(7), request(t, c, getTensor, append(make([]byte, 304), number(8)...)))
	require.NoError(t, r.Err())
	request(t, c, getAlignment, number(0))
	require.Error(t, r.Err(), "the graph is done")
}

func TestRefusedHandshake(t *testing.T) {
	for _, reply := range [][]byte{handshakeReply(Major+1, Minor), handshakeReply(Major, Minor+1), make([]byte, handshakeReplySize)} {
		r := start(t, startServer(t, reply))
		require.Equal(t, number(1<<62), request(t, dial(t, r), getMaxSize, number(0)))
		require.ErrorContains(t, r.Err(), "start it with ggml 9.9.9")
	}
	closed := startServer(t)
	r := start(t, closed)
	dial(t, r)
	require.EqualError(t, r.Err(), "it has closed the connection")
}

func TestDisplayName(t *testing.T) {
	r := start(t, "example.org:50052")
	require.True(t, InUse())
	require.Same(t, r, ByAddress(r.Address))
	require.Nil(t, ByAddress("example.org:50052"))
	require.Equal(t, "RPC0[example.org:50052]", DisplayName("RPC0["+r.Address+"]"))
	require.Equal(t, r.Address+"0", DisplayName(r.Address+"0")) // another port
	r.Close()
	require.Equal(t, r.Address, DisplayName(r.Address))
}
