package rpcrelay

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/test/loopback"
	"github.com/goggml/ggml/internal/test/need"
)

// startServer starts a server that sends each connection the next of replies, then closes it.
func startServer(t *testing.T, replies ...[]byte) (endpoint string) {
	return loopback.Serve(t, func(c net.Conn) {
		for _, reply := range replies {
			if _, err := readRequest(c); err != nil {
				break
			}
			c.Write(reply)
		}
	}).Addr().String()
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
	return message(append([]byte{major, minor, 0, 0}, make([]byte, rpcwire.CapabilitiesSize)...))
}

func number(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func start(t *testing.T, endpoint string) *Relay {
	r := need.Value(New(endpoint, "9.9.9", Native{}))(t)
	t.Cleanup(r.Close)
	return r
}

// dial connects like ggml's client, which accepts every handshake.
func dial(t *testing.T, r *Relay) net.Conn {
	c := need.Value(net.Dial("tcp", r.Address))(t)
	t.Cleanup(func() { c.Close() })
	require.Equal(t, handshakeReply(rpcwire.Major, rpcwire.Minor)[8:], request(t, c, rpcwire.Hello, make([]byte, rpcwire.CapabilitiesSize)))
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
	r := start(t, startServer(t, handshakeReply(rpcwire.Major, rpcwire.Minor), message(number(64)), message(data)))
	c := dial(t, r)
	require.Equal(t, number(64), request(t, c, rpcwire.GetAlignment, number(0)))
	require.Equal(t, data, request(t, c, rpcwire.GetTensor, append(make([]byte, 300), number(uint64(len(data)))...)))
	require.NoError(t, r.Err())
}

// If memory was freed after a graph was sent, the whole graph is sent again: ggml's server has
// forgotten it.
func TestGraphAfterFree(t *testing.T) {
	type got struct {
		command
		body []byte
	}
	requests := make(chan got)
	l := loopback.Serve(t, func(c net.Conn) {
		readRequest(c)
		c.Write(handshakeReply(rpcwire.Major, rpcwire.Minor))
		for {
			var header [9]byte
			if _, err := io.ReadFull(c, header[:]); err != nil {
				return
			}
			body := make([]byte, binary.LittleEndian.Uint64(header[1:]))
			io.ReadFull(c, body)
			requests <- got{command(header[0]), body}
		}
	})
	c := dial(t, start(t, l.Addr().String()))
	graph := func(device uint32, uid uint64, tensors int) []byte {
		g := rpcwire.Graph{Device: device, UID: uid, Nodes: []uint64{1}, Tensors: make([]rpcwire.Tensor, tensors)}
		for i := range g.Tensors {
			g.Tensors[i].ID = uint64(i) + uid
		}
		return g.Append(nil)
	}
	first, second, other, unnamed := graph(0, 7, 1), graph(0, 8, 5000), graph(1, 7, 2), graph(0, 0, 1)
	step := func(cmd command, body []byte, want command, wantBody []byte) {
		t.Helper()
		_, err := c.Write(append([]byte{byte(cmd)}, message(body)...))
		require.NoError(t, err)
		r := <-requests
		require.Equal(t, want, r.command)
		require.Equal(t, wantBody, r.body)
	}
	same := func(cmd command, body []byte) { t.Helper(); step(cmd, body, cmd, body) }
	same(rpcwire.GraphCompute, first)
	same(rpcwire.GraphCompute, second)
	same(rpcwire.GraphCompute, other)
	same(rpcwire.GraphCompute, unnamed)
	same(rpcwire.GraphRecompute, first[:12])
	same(rpcwire.FreeBuffer, number(1))
	step(rpcwire.GraphRecompute, first[:12], rpcwire.GraphCompute, first)
	same(rpcwire.GraphRecompute, first[:12])
	step(rpcwire.GraphRecompute, other[:12], rpcwire.GraphCompute, other)
	step(rpcwire.GraphRecompute, second[:12], rpcwire.GraphCompute, second)
	same(rpcwire.FreeBuffer, number(2))
	same(rpcwire.FreeBuffer, number(3))
	same(rpcwire.GraphCompute, first)
	same(rpcwire.GraphRecompute, first[:12])
	step(rpcwire.GraphRecompute, second[:12], rpcwire.GraphCompute, second)
	same(rpcwire.GraphRecompute, graph(0, 9, 1)[:12]) // which was never sent
}

// The relay keeps the most recently computed graphs.
func TestKeptGraphs(t *testing.T) {
	var s sentGraphs
	id := func(uid uint64) graphID { return graphID((&rpcwire.Graph{UID: uid}).Append(nil)) }
	noise := rand.NewChaCha8([32]byte{})
	for uid := range uint64(40) {
		body := make([]byte, 1<<20)
		noise.Read(body[12:])
		binary.LittleEndian.PutUint64(body[4:], uid+1)
		require.NoError(t, s.keep(body))
		s.frees++
		again := need.Value(s.again(id(1)))(t)
		require.Len(t, again, 1<<20, "it is in use")
		require.LessOrEqual(t, s.bytes, maxKept)
	}
	require.Len(t, s.of, s.used.Len())
	require.Equal(t, 31, s.used.Len())
	for _, gone := range []uint64{2, 9, 10} {
		require.Nil(t, s.of[id(gone)])
	}
	for _, kept := range []uint64{1, 11, 40} {
		require.NotNil(t, s.of[id(kept)])
	}
}

// After a failure the client gets replies of the expected sizes, until a new handshake succeeds.
func TestSynthesize(t *testing.T) {
	r := start(t, startServer(t, handshakeReply(rpcwire.Major, rpcwire.Minor), message(number(64))))
	c := dial(t, r)
	require.Equal(t, number(64), request(t, c, rpcwire.GetAlignment, number(0)))
	require.NoError(t, r.Err())
	require.Equal(t, number(4096), request(t, c, rpcwire.GetAlignment, number(0)))
	require.Error(t, r.Err())
	require.Equal(t, make([]byte, 5), request(t, c, rpcwire.GetTensor, append(make([]byte, 300), number(5)...)))
	require.Equal(t, make([]byte, 12), request(t, c, rpcwire.GetTensor2D, append(make([]byte, 300), append(number(4), append(number(3), number(0)...)...)...)))
	require.Equal(t, []byte{1}, request(t, c, rpcwire.SetTensorHash, number(0)))
	require.Equal(t, make([]byte, 16), request(t, c, rpcwire.AllocBuffer, number(0)))

	again := dial(t, r)
	require.NoError(t, r.Err())
	require.Equal(t, number(64), request(t, again, rpcwire.GetAlignment, number(0)))
}

// Replies that end too early, or would end the process, are failures.
func TestBadReplies(t *testing.T) {
	for name, c := range map[string]struct {
		cmd         command
		reply, want []byte
	}{
		"short data":            {rpcwire.GetTensor, append(number(8), 1, 2, 3), make([]byte, 8)},
		"short alignment":       {rpcwire.GetAlignment, append(number(8), 64, 0, 0), number(4096)},
		"alignment of 0":        {rpcwire.GetAlignment, message(number(0)), number(4096)},
		"alignment of 3":        {rpcwire.GetAlignment, message(number(3)), number(4096)},
		"memory at 0":           {rpcwire.BufferGetBase, message(number(0)), number(4096)},
		"a million devices":     {rpcwire.DeviceCount, message(number(1_000_000)[:4]), make([]byte, 4)},
		"another size of reply": {rpcwire.GetMaxSize, message(number(1)[:4]), number(1 << 62)},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, startServer(t, handshakeReply(rpcwire.Major, rpcwire.Minor), c.reply))
			require.Equal(t, c.want, request(t, dial(t, r), c.cmd, append(make([]byte, 300), number(8)...)))
			require.Error(t, r.Err())
		})
	}
}

// A relay does not take a relay of this process for its server, which may have had the port before.
func TestRelayOnPortOfServer(t *testing.T) {
	listener := need.Value(net.Listen("tcp4", "127.0.0.1:0"))(t)
	own := newRelay(listener, listener.Addr().String(), "9.9.9", Native{})
	t.Cleanup(own.Close)
	for _, r := range []*Relay{own, start(t, own.Address)} {
		require.Equal(t, number(4096), request(t, dial(t, r), rpcwire.GetAlignment, number(0)))
		require.ErrorContains(t, r.Err(), "it does not answer (connect: connection refused)")
	}
}

// A server that stalls after the handshake is gone, unless it computes a graph.
func TestStall(t *testing.T) {
	need.Time(t, "waits for seconds")
	silent := make(chan struct{})
	l := loopback.Serve(t, func(c net.Conn) {
		readRequest(c)
		c.Write(handshakeReply(rpcwire.Major, rpcwire.Minor))
		go func() {
			<-silent
			c.Write(message(number(7)))
		}()
		io.Copy(io.Discard, c)
	})
	r := start(t, l.Addr().String())
	r.stall = time.Second / 2
	require.Equal(t, number(4096), request(t, dial(t, r), rpcwire.GetAlignment, number(0)))
	require.EqualError(t, r.Err(), "it has not answered for 500ms")

	c := dial(t, r)
	_, err := c.Write(append([]byte{byte(rpcwire.GraphCompute)}, message(make([]byte, 20))...))
	require.NoError(t, err)
	time.AfterFunc(time.Second, func() { close(silent) })
	require.Equal(t, number(7), request(t, c, rpcwire.GetTensor, append(make([]byte, 304), number(8)...)))
	require.NoError(t, r.Err())
	request(t, c, rpcwire.GetAlignment, number(0))
	require.Error(t, r.Err(), "the graph is done")
}

// A server with several connections that stops during a graph is gone after a while, but not while
// it is alive.
func TestStallInGraph(t *testing.T) {
	need.Time(t, "waits for seconds")
	var stopped atomic.Bool
	var greeted atomic.Int64
	r := start(t, startMute(t, func() bool { return !stopped.Load() && greeted.Add(1) > 0 }))
	r.stall = time.Second
	c := dial(t, r)
	require.Eventually(t, r.several.Load, time.Minute, time.Millisecond)
	computeAndGet(t, c)
	before := greeted.Load()
	require.Eventually(t, func() bool { return greeted.Load() > before+8 }, time.Minute, 10*time.Millisecond) // six a second
	require.NoError(t, r.Err(), "it lives")
	stopped.Store(true)
	require.Eventually(t, func() bool { return r.Err() != nil }, time.Minute, time.Millisecond)
	require.EqualError(t, r.Err(), "it has not answered for 1s")
	var reply [16]byte
	_, err := io.ReadFull(c, reply[:])
	require.NoError(t, err, "the client goes on")
}

// startMute starts a server that answers only handshakes, while lives returns true.
func startMute(t *testing.T, lives func() bool) (endpoint string) {
	t.Helper()
	return loopback.Serve(t, func(c net.Conn) {
		if lives() {
			readRequest(c)
			c.Write(handshakeReply(rpcwire.Major, rpcwire.Minor))
		}
		io.Copy(io.Discard, c)
	}).Addr().String()
}

// computeAndGet sends a graph, then requests a tensor, which is available after the graph.
func computeAndGet(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := c.Write(append([]byte{byte(rpcwire.GraphCompute)}, message(make([]byte, 20))...))
	require.NoError(t, err)
	_, err = c.Write(append([]byte{byte(rpcwire.GetTensor)}, message(append(make([]byte, 304), number(8)...))...))
	require.NoError(t, err)
}

// A server that computes a graph, mute on its connection but alive on others, has no time limit
// until hurried; then the usual limit applies.
func TestHurry(t *testing.T) {
	r := start(t, startMute(t, func() bool { return true }))
	r.stall = 300 * time.Millisecond
	wait := func() Wait {
		list := Waits()
		return list[slices.IndexFunc(list, func(w Wait) bool { return w.Endpoint == r.Endpoint })]
	}
	c := dial(t, r)
	computeAndGet(t, c)
	r.Hurry()() // for a finished computation
	require.Eventually(t, func() bool { return wait().Current > time.Second }, 20*time.Second, time.Millisecond)
	require.NoError(t, r.Err(), "it lives")
	require.Zero(t, wait().Left)
	hurried := time.Now()
	calm := r.Hurry()
	r.Hurry()() // for another computation
	require.Eventually(t, func() bool { return r.Err() != nil }, 20*time.Second, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(hurried), r.stall)
	require.EqualError(t, r.Err(), "it has not answered for 300ms")
	require.Greater(t, wait().Total, time.Second)
	calm()
	require.False(t, r.isOver())
}

func TestRefusedHandshake(t *testing.T) {
	for _, reply := range [][]byte{handshakeReply(rpcwire.Major+1, rpcwire.Minor), handshakeReply(rpcwire.Major, rpcwire.Minor+1), make([]byte, rpcwire.HandshakeReplySize)} {
		r := start(t, startServer(t, reply))
		require.Equal(t, number(1<<62), request(t, dial(t, r), rpcwire.GetMaxSize, number(0)))
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
