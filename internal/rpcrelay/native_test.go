package rpcrelay

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/test/loopback"
	"github.com/goggml/ggml/internal/test/need"
)

// withNative is the handshake's reply of a server with native ops of a version.
func withNative(version byte) []byte {
	reply := handshakeReply(rpcwire.Major, rpcwire.Minor)
	reply[8+rpcwire.FlagsAt] = byte(rpcwire.Flags(0).WithNativeOps(version))
	return reply
}

// A server of this project and of this version says which native ops it has; no other is asked.
func TestNativeOps(t *testing.T) {
	for version, want := range map[byte][]string{0: nil, rpcwire.NativeOpsVersion: {"gemm", "adamw_step"}, rpcwire.NativeOpsVersion + 1: nil} {
		r := start(t, startServer(t, withNative(version), message([]byte("gemm\nadamw_step"))))
		c := need.Value(net.Dial("tcp", r.Address))(t) // ggml's client connects first
		defer c.Close()
		request(t, c, rpcwire.Hello, make([]byte, rpcwire.CapabilitiesSize))
		require.Equal(t, want, need.Value(r.NativeOps(0))(t), version)
	}
	long := message([]byte(strings.Repeat("x", rpcwire.MaxNativeOps+1)))
	r := start(t, startServer(t, withNative(rpcwire.NativeOpsVersion), long))
	c := need.Value(net.Dial("tcp", r.Address))(t)
	defer c.Close()
	request(t, c, rpcwire.Hello, make([]byte, rpcwire.CapabilitiesSize))
	_, err := r.NativeOps(0)
	require.ErrorIs(t, err, errUnknownReply)
}

// In graphs, what stands for native ops takes the place of their addresses; other ops stay. A server without them gets none.
func TestNativeGraph(t *testing.T) {
	for version, err := range map[byte]error{rpcwire.NativeOpsVersion: nil, 0: errNoNative} {
		testNativeGraph(t, version, err)
	}
}

func testNativeGraph(t *testing.T, version byte, failure error) {
	const custom, address, id = 83, 0x7f0012345678, 0xfedcba9876543210
	got := make(chan []byte, 1)
	l := loopback.Serve(t, func(c net.Conn) {
		readRequest(c)
		c.Write(withNative(version))
		var header [rpcwire.HeaderSize]byte
		if _, err := io.ReadFull(c, header[:]); err != nil {
			return
		}
		body := make([]byte, binary.LittleEndian.Uint64(header[1:]))
		io.ReadFull(c, body)
		got <- body
	})
	r := need.Value(New(l.Addr().String(), "9.9.9", Native{custom, func(of uint64) uint64 {
		require.EqualValues(t, address, of)
		return id
	}}))(t)
	defer r.Close()
	g := rpcwire.Graph{UID: 1, Nodes: []uint64{1, 2}, Tensors: make([]rpcwire.Tensor, 2)}
	for i := range g.Tensors {
		x := &g.Tensors[i]
		x.ID, x.Op = uint64(1+i), uint32(custom+i)
		x.Params[0], x.Params[1], x.Params[2] = 0x12345678, 0x7f00, 5
	}
	c := need.Value(net.Dial("tcp", r.Address))(t)
	defer c.Close()
	request(t, c, rpcwire.Hello, make([]byte, rpcwire.CapabilitiesSize))
	_, err := c.Write(append([]byte{byte(rpcwire.GraphCompute)}, message(g.Append(nil))...))
	require.NoError(t, err)
	if failure != nil {
		require.Eventually(t, func() bool { return r.Err() != nil }, time.Minute, time.Millisecond)
		require.ErrorIs(t, r.Err(), failure)
		require.Empty(t, got)
		return
	}
	g.Tensors[0].Params[0], g.Tensors[0].Params[1] = 0x76543210, -0x1234568
	require.Equal(t, g.Append(nil), <-got)
	require.NoError(t, r.Err())
}
