package ggml_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/test/loopback"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/rpc"
)

func TestRPCServer(t *testing.T) {
	s := optest.StartRPCServer(t)
	d := remote(t, s)
	again := need.Value(ggml.AddRPCServer(s.Endpoint))(t)
	require.Equal(t, "RPC["+s.Endpoint+"]", again.Name())
	require.Regexp(t, `^RPC\d+$`, d.Name())
	require.Equal(t, s.Endpoint, d.Description())
	p := d.Properties()
	require.Equal(t, ggml.GPU, p.Type)
	require.Positive(t, p.MemoryTotal)
	require.True(t, p.Async && p.Events)
	require.Equal(t, "RPC0["+s.Endpoint+"]", d.BufferType().Name())
	require.False(t, d.BufferType().IsHost())
	listed := need.Value(ggml.DeviceByName(d.Name()))(t)
	require.Equal(t, d, listed)
	all := need.Value(ggml.RPCDevices())(t)
	require.Contains(t, all, d)
	b := need.Value(d.NewBackend())(t)
	defer b.Close()
	require.True(t, b.IsRPC())
	require.False(t, b.IsBLAS() || b.IsCUDA() || b.IsMetal() || b.IsVulkan() || optest.NewCPUBackend(t, 1).IsRPC())
	require.NotEqual(t, b.GUID(), optest.NewCPUBackend(t, 1).GUID())
}

// An unloaded server is not listed but remains usable; adding it again lists it.
func TestRPCUnload(t *testing.T) {
	s := optest.StartRPCServer(t)
	r := need.Value(ggml.AddRPCServer(s.Endpoint))(t)
	d := r.Devices()[0]
	require.NoError(t, r.Unload())
	require.ErrorIs(t, r.Unload(), ggml.ErrNotLoaded)
	_, err := ggml.DeviceByName(d.Name())
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	require.Positive(t, d.Properties().MemoryTotal)
	require.NotEqual(t, d.Name(), remote(t, s).Name())
}

func TestRPCMisuse(t *testing.T) {
	for _, endpoint := range []string{"", "127.0.0.1", "no port:", "a:b:c", ":50052", "127.0.0.1:ssh", "127.0.0.1:0"} {
		_, err := ggml.AddRPCServer(endpoint)
		require.ErrorContains(t, err, "expected a host and a port", endpoint)
	}
	l := loopback.Serve(t, func(c net.Conn) {
		c.Write([]byte("220 this is a mail server, or so\r\nand it says much more than is asked\r\n"))
	})
	endpoint := l.Addr().String()
	_, err := ggml.AddRPCServer(endpoint)
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	require.ErrorContains(t, err, "ggml: RPC server "+endpoint)
	require.NoError(t, l.Close())
	_, err = ggml.AddRPCServer(endpoint)
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	require.ErrorContains(t, err, "connection refused")
}

// A peer that does not speak the protocol is an error that names the peer, within a time limit, and
// never ends the process.
func TestBadServers(t *testing.T) {
	defer func() { testhook.RPCStall = 0 }()
	hello := func(major, minor byte) []byte {
		return append([]byte{28, 0, 0, 0, 0, 0, 0, 0, major, minor, 0, 0}, make([]byte, 24)...)
	}
	for what, c := range map[string]struct {
		answers [][]byte // one per request
		says    string
	}{
		"another version":  {[][]byte{hello(3, 6)}, "it is not an RPC server of ggml with protocol 10.0; start it with ggml " + ggml.Version()},
		"a later version":  {[][]byte{hello(rpcwire.Major, 1)}, "it is not an RPC server of ggml with protocol 10.0"},
		"garbage":          {[][]byte{[]byte("HTTP/1.1 400 Bad Request, as this is quite another kind of server")}, "it is not an RPC server of ggml"},
		"2³² devices":      {[][]byte{hello(rpcwire.Major, 0), {4, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255}}, "it answers in a way that this package does not know"},
		"a reply too long": {[][]byte{hello(rpcwire.Major, 0), {255, 255, 255, 255, 255, 255, 255, 127}}, "it answers in a way that this package does not know"},
		"garbage later":    {[][]byte{hello(rpcwire.Major, 0), []byte("and then it talks of something else")}, "it answers in a way that this package does not know"},
		"one that leaves":  {[][]byte{hello(rpcwire.Major, 0)}, "it has closed the connection"},
		"one that stalls":  {[][]byte{hello(rpcwire.Major, 0), nil}, "it has not answered for 1s"},
	} {
		t.Run(what, func(t *testing.T) {
			testhook.RPCStall = 0
			if what == "one that stalls" {
				testhook.RPCStall = time.Second
			}
			endpoint := loopback.Serve(t, loopback.Answer(c.answers...)).Addr().String()
			begin := time.Now()
			_, err := ggml.AddRPCServer(endpoint)
			require.ErrorIs(t, err, ggml.ErrDisconnected)
			require.ErrorContains(t, err, "ggml: RPC server "+endpoint+": "+c.says)
			require.Less(t, time.Since(begin), 30*time.Second)
		})
	}
}

// A cancelled Compute returns while a server computes; the next use of the graph waits.
func TestCancelRemoteCompute(t *testing.T) {
	need.Time(t, "waits for seconds")
	d := remote(t, optest.StartRPCServer(t))
	b := need.Value(d.NewBackend())(t)
	defer b.Close()
	for what, compute := range map[string]func(ctx context.Context, g *ggml.Graph) error{
		"a backend": func(ctx context.Context, g *ggml.Graph) error {
			a := need.Value(ggml.NewGraphAllocator(d.BufferType()))(t)
			defer a.Close()
			require.NoError(t, a.Allocate(g))
			return b.Compute(ctx, g)
		},
		"a scheduler": func(ctx context.Context, g *ggml.Graph) error {
			sched := optest.NewScheduler(t, b, optest.NewCPUBackend(t, 1))
			require.NoError(t, sched.Allocate(g))
			return sched.Compute(ctx, g)
		},
	} {
		t.Run(what, func(t *testing.T) {
			x, c := placed(t, d, 1024, 1024), ggml.NewContext()
			defer c.Close()
			require.NoError(t, x.Memset(0))
			y := x
			for range 20 { // a second
				y = c.MulMat(x, y)
			}
			cause := errors.New("enough")
			// On a busy machine the graph may not have been sent when its context ends.
			for wait := 20 * time.Millisecond; ; wait *= 2 {
				require.Less(t, wait, 2*time.Second, "it is never heard long before the end")
				ctx, cancel := context.WithCancelCause(t.Context())
				timer := time.AfterFunc(wait, func() { cancel(cause) })
				begin := time.Now()
				require.ErrorIs(t, compute(ctx, c.NewGraph(y)), cause)
				heard := time.Since(begin)
				timer.Stop()
				got, err := ggml.Read[float32](x) // when the server is done
				require.NoError(t, err)
				require.Zero(t, got[0])
				if time.Since(begin) > 2*heard {
					break
				}
			}
		})
	}
}

// If a server dies, everything that uses it fails, and nothing else; when it is back, so are its
// devices.
func TestRPCServerDies(t *testing.T) {
	s, other := optest.StartRPCServer(t), optest.StartRPCServer(t)
	d, alive := remote(t, s), remote(t, other)
	b, err := d.NewBackend()
	require.NoError(t, err)
	defer b.Close()
	x, c := placed(t, d, 4), ggml.NewContext()
	defer c.Close()
	survivor := placed(t, alive, 4)
	g := c.NewGraph(c.Add(x, x))
	a := need.Value(ggml.NewGraphAllocator(d.BufferType()))(t)
	defer a.Close()
	require.NoError(t, a.Allocate(g))
	sched := optest.NewScheduler(t, b, optest.NewCPUBackend(t, 1))
	event := need.Value(d.NewEvent())(t)
	defer event.Close()

	s.Kill()
	for i := range 2 { // the first finds out, the others use its result
		_, err = ggml.Read[float32](x)
		require.ErrorIs(t, err, ggml.ErrDisconnected, "%d", i)
		require.ErrorContains(t, err, "RPC server "+s.Endpoint+": server is gone")
	}
	require.ErrorIs(t, ggml.Write(x, []float32{1, 2, 3, 4}), ggml.ErrDisconnected)
	require.ErrorIs(t, x.Memset(0), ggml.ErrDisconnected)
	require.ErrorIs(t, ggml.CopyTensor(survivor, x), ggml.ErrDisconnected)
	require.ErrorIs(t, ggml.CopyTensor(x, survivor), ggml.ErrDisconnected)
	require.ErrorIs(t, b.Compute(context.Background(), g), ggml.ErrDisconnected)
	err = b.Compute(t.Context(), g) // may succeed
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	require.ErrorContains(t, err, "Backend.Compute(graph of 1 nodes)")
	require.ErrorIs(t, b.ComputeAsync(context.Background(), g), ggml.ErrDisconnected)
	require.ErrorIs(t, b.Synchronize(), ggml.ErrDisconnected)
	_, _, err = g.CopyTo(optest.NewCPUBackend(t, 1))
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	require.ErrorIs(t, a.Allocate(g), ggml.ErrDisconnected)
	require.ErrorIs(t, sched.Allocate(g), ggml.ErrDisconnected)
	_, err = d.BufferType().NewBuffer(64)
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	_, err = d.NewBackend()
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	require.NoError(t, ggml.Write(survivor, []float32{1, 2, 3, 4}))
	got := need.Value(ggml.Read[float32](survivor))(t)
	require.Equal(t, []float32{1, 2, 3, 4}, got)

	event.Close()
	sched.Close()
	a.Close()
	b.Close()
	closePlaced(x)
	_, err = d.NewBackend()
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	s.Start(t)
	require.True(t, s.Answers(func() error {
		b, err := d.NewBackend()
		if err == nil {
			b.Close()
		}
		return err
	}))
	y := placed(t, d, 4)
	require.NoError(t, ggml.Write(y, []float32{5, 6, 7, 8}))
	got = need.Value(ggml.Read[float32](y))(t)
	require.Equal(t, []float32{5, 6, 7, 8}, got)
}

// A server in this process stops, and can be started again at the same address.
func TestRPCServerStops(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	endpoint := l.Addr().String()
	require.NoError(t, l.Close())
	cause := errors.New("enough")
	var r *ggml.Registry
	defer func() { require.NoError(t, r.Unload()) }() // other tests use all devices
	for range 3 {
		ctx, stop := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- rpc.Serve(ctx, endpoint, rpc.Options{Threads: 1}) }()
		requireServerSurvives(t, endpoint)
		require.Eventually(t, func() bool {
			r, err = ggml.AddRPCServer(endpoint)
			return err == nil
		}, time.Minute, 10*time.Millisecond)
		x := placed(t, r.Devices()[0], 4)
		require.NoError(t, ggml.Write(x, []float32{1, 2, 3, 4}))
		got := need.Value(ggml.Read[float32](x))(t)
		require.Equal(t, []float32{1, 2, 3, 4}, got)

		stop(cause)
		require.ErrorIs(t, <-ended, cause)
		_, err := ggml.Read[float32](x)
		require.ErrorIs(t, err, ggml.ErrDisconnected)
		closePlaced(x)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, rpc.Serve(ctx, endpoint, rpc.Options{}), context.Canceled)
}

// requireServerSurvives sends a length that would end ggml's server.
func requireServerSurvives(t *testing.T, endpoint string) {
	var c net.Conn
	require.Eventually(t, func() bool {
		var err error
		c, err = net.Dial("tcp", endpoint)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	defer c.Close()
	handshake := append([]byte{14, 24, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 24)...)
	_, err := c.Write(append(handshake, 6, 255, 255, 255, 255, 255, 255, 255, 255))
	require.NoError(t, err)
	_, err = io.ReadAll(c) // until it is disconnected
	require.NoError(t, err)
}

// A client can use the free memory within the server's limit.
func TestRPCServerMemory(t *testing.T) {
	const limit = 1 << 20
	s := optest.StartRPCServerWith(t, optest.ServerOptions{Memory: limit})
	r := need.Value(ggml.AddRPCServer(s.Endpoint))(t)
	defer r.Unload()
	d := r.Devices()[0]
	free := func() int64 { return d.Properties().MemoryFree }
	require.EqualValues(t, limit, free())
	require.EqualValues(t, limit, d.Properties().MemoryTotal)
	first := need.Value(d.BufferType().NewBuffer(limit / 4))(t)
	require.EqualValues(t, limit/4*3, free())
	_, err := d.BufferType().NewBuffer(limit)
	require.ErrorContains(t, err, "a buffer of 1048576 bytes in RPC")
	second := need.Value(d.BufferType().NewBuffer(limit / 2))(t)
	require.EqualValues(t, limit/4, free())
	require.NoError(t, first.Close())
	require.EqualValues(t, limit/2, free())
	require.NoError(t, second.Close())
	// The client leaves with its last buffer, and uses another connection, which may be answered before it has left.
	require.Eventually(t, func() bool { return free() == limit }, time.Minute, time.Millisecond)
}

// A client cannot see data that another client has left in memory.
func TestRPCMemoryIsEmpty(t *testing.T) {
	s := optest.StartRPCServer(t)
	for _, n := range []int64{1, 1000, 50_001, 500_001, 5_000_001} {
		for _, value := range []float32{1, 2} {
			r := need.Value(ggml.AddRPCServer(s.Endpoint))(t)
			c := ggml.NewContext()
			x := c.NewTensor(ggml.F32, n)
			buffers := need.Value(c.Allocate(r.Devices()[0].BufferType()))(t)
			got := need.Value(ggml.Read[float32](x))(t)
			require.Equal(t, make([]float32, n), got)
			require.NoError(t, ggml.Write(x, slices.Repeat([]float32{value}, int(n))))
			require.NoError(t, buffers.Close())
			c.Close()
			r.Unload()
		}
	}
}
