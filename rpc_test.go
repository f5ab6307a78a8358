package ggml_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// serverEnv makes the test binary a server: a server cannot be stopped, so it
// is a process of its own.
const serverEnv = "GOGGML_TEST_RPC_SERVER"

func serveIfAsked() {
	endpoint := os.Getenv(serverEnv)
	if endpoint == "" {
		return
	}
	go func() {
		io.Copy(io.Discard, os.Stdin) // until the parent ends
		os.Exit(0)
	}()
	ggml.SetLogger(nil)
	fmt.Fprintln(os.Stderr, ggml.ServeRPC(endpoint, ggml.RPCServerOptions{Threads: 1}))
	os.Exit(1)
}

// An rpcServer is a server in a process of its own.
type rpcServer struct {
	endpoint string
	process  *exec.Cmd
	stdin    io.Closer
}

// startServer starts a server, which runs until the test ends.
func startServer(t testing.TB) *rpcServer {
	s := newServer(t)
	t.Cleanup(s.kill)
	return s
}

// newServer starts a server on a free port, and adds it.
func newServer(t testing.TB) *rpcServer {
	s := &rpcServer{}
	for range 5 { // another program may take the port
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		s.endpoint = l.Addr().String()
		require.NoError(t, l.Close())
		s.start(t)
		if s.answers(func() error { _, err := ggml.AddRPCServer(s.endpoint); return err }) {
			return s
		}
		s.kill()
	}
	require.FailNow(t, "no server comes up")
	return nil
}

func (s *rpcServer) start(t testing.TB) {
	self, err := os.Executable()
	require.NoError(t, err)
	s.process = exec.Command(self)
	s.process.Env = append(os.Environ(), serverEnv+"="+s.endpoint)
	s.stdin, err = s.process.StdinPipe()
	require.NoError(t, err)
	s.process.Stderr = os.Stderr
	require.NoError(t, s.process.Start())
}

// answers tries until the server, which may be slow to start, answers.
func (s *rpcServer) answers(ask func() error) bool {
	for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(20 * time.Millisecond) {
		if ask() == nil {
			return true
		}
	}
	return false
}

func (s *rpcServer) kill() {
	if s.process != nil {
		s.process.Process.Kill()
		s.process.Wait()
		s.process = nil
	}
}

// remote adds a server and gives its device, which is listed until the test ends.
func remote(t testing.TB, s *rpcServer) *ggml.Device {
	r, err := ggml.AddRPCServer(s.endpoint)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Unload()) })
	require.Len(t, r.Devices(), 1)
	return r.Devices()[0]
}

func TestRPCServer(t *testing.T) {
	s := startServer(t)
	d := remote(t, s)
	again, err := ggml.AddRPCServer(s.endpoint)
	require.NoError(t, err)
	require.Equal(t, "RPC["+s.endpoint+"]", again.Name())
	require.Regexp(t, `^RPC\d+$`, d.Name())
	require.Equal(t, s.endpoint, d.Description())
	p := d.Properties()
	require.Equal(t, ggml.GPU, p.Type)
	require.Positive(t, p.MemoryTotal)
	require.True(t, p.Async && p.Events)
	require.Equal(t, "RPC0["+s.endpoint+"]", d.BufferType().Name())
	require.False(t, d.BufferType().IsHost())
	listed, err := ggml.DeviceByName(d.Name())
	require.NoError(t, err)
	require.Equal(t, d, listed)
	all, err := ggml.RPCDevices()
	require.NoError(t, err)
	require.Contains(t, all, d)
	b, err := d.NewBackend()
	require.NoError(t, err)
	defer b.Close()
	require.True(t, b.IsRPC())
	require.False(t, b.IsBLAS() || b.IsCUDA() || b.IsMetal() || b.IsVulkan() || cpuBackend(t, 1).IsRPC())
	require.NotEqual(t, b.GUID(), cpuBackend(t, 1).GUID())
}

// An unloaded server is not listed, but serves on; added again, it is.
func TestRPCUnload(t *testing.T) {
	s := startServer(t)
	r, err := ggml.AddRPCServer(s.endpoint)
	require.NoError(t, err)
	d := r.Devices()[0]
	require.NoError(t, r.Unload())
	require.ErrorIs(t, r.Unload(), ggml.ErrNotLoaded)
	_, err = ggml.DeviceByName(d.Name())
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	require.Positive(t, d.Properties().MemoryTotal)
	require.NotEqual(t, d.Name(), remote(t, s).Name())
}

func TestRPCMisuse(t *testing.T) {
	for _, endpoint := range []string{"", "127.0.0.1", "no port:", "a:b:c", ":50052", "127.0.0.1:ssh", "127.0.0.1:0"} {
		_, err := ggml.AddRPCServer(endpoint)
		require.ErrorContains(t, err, "it takes a host and a port", endpoint)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	endpoint := l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("220 this is a mail server, or so\r\nand it says much more than is asked\r\n"))
			c.Close()
		}
	}()
	_, err = ggml.AddRPCServer(endpoint)
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	require.ErrorContains(t, err, "ggml: RPC server "+endpoint)
	require.NoError(t, l.Close())
	_, err = ggml.AddRPCServer(endpoint)
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	require.ErrorContains(t, err, "connection refused")
	for _, bad := range []string{"", "127.0.0.1", "localhost:50052", "127.0.0.1:0", "[::1]:50052"} {
		require.ErrorContains(t, ggml.ServeRPC(bad, ggml.RPCServerOptions{}), "it takes an IPv4 address and a port", bad)
	}
	require.ErrorContains(t, ggml.ServeRPC("0.0.0.0:50052", ggml.RPCServerOptions{}), "set AnyAddress")
	require.ErrorContains(t, ggml.ServeRPC("127.0.0.1:50052", ggml.RPCServerOptions{Threads: -1}), "-1 threads")
	require.ErrorContains(t, ggml.ServeRPC("127.0.0.1:50052", ggml.RPCServerOptions{}, nil), "a device is nil")
	busy, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	require.ErrorContains(t, ggml.ServeRPC(busy.Addr().String(), ggml.RPCServerOptions{}), "address already in use")
}

// A server that dies is an error of everything that has to do with it, and of
// nothing else; when it is there again, so are its devices.
func TestRPCServerDies(t *testing.T) {
	s, other := startServer(t), startServer(t)
	d, alive := remote(t, s), remote(t, other)
	b, err := d.NewBackend()
	require.NoError(t, err)
	defer b.Close()
	x, c := placed(t, d, 4), ggml.NewContext()
	defer c.Close()
	survivor := placed(t, alive, 4)
	g := c.NewGraph(c.Add(x, x))
	a, err := ggml.NewGraphAllocator(d.BufferType())
	require.NoError(t, err)
	defer a.Close()
	require.NoError(t, a.Alloc(g))
	sched := scheduler(t, b, cpuBackend(t, 1))
	event, err := d.NewEvent()
	require.NoError(t, err)
	defer event.Close()

	s.kill()
	for i := range 2 { // the first one finds out, the others know
		_, err = ggml.Read[float32](x)
		require.ErrorIs(t, err, ggml.ErrDisconnected, "%d", i)
		require.ErrorContains(t, err, "RPC server "+s.endpoint+": server is gone")
	}
	require.ErrorIs(t, ggml.Write(x, []float32{1, 2, 3, 4}), ggml.ErrDisconnected)
	require.ErrorIs(t, x.Fill(0), ggml.ErrDisconnected)
	require.ErrorIs(t, ggml.CopyTensor(survivor, x), ggml.ErrDisconnected)
	require.ErrorIs(t, ggml.CopyTensor(x, survivor), ggml.ErrDisconnected)
	require.ErrorIs(t, b.Compute(context.Background(), g), ggml.ErrDisconnected)
	require.ErrorIs(t, b.ComputeAsync(context.Background(), g), ggml.ErrDisconnected)
	require.ErrorIs(t, b.Synchronize(), ggml.ErrDisconnected)
	_, _, err = g.CopyTo(cpuBackend(t, 1))
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	require.ErrorIs(t, a.Alloc(g), ggml.ErrDisconnected)
	require.ErrorIs(t, sched.Alloc(g), ggml.ErrDisconnected)
	_, err = d.BufferType().NewBuffer(64)
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	_, err = d.NewBackend()
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	require.NoError(t, ggml.Write(survivor, []float32{1, 2, 3, 4}))
	got, err := ggml.Read[float32](survivor)
	require.NoError(t, err)
	require.Equal(t, []float32{1, 2, 3, 4}, got)

	event.Close()
	sched.Close()
	a.Close()
	b.Close()
	closePlaced(x)
	_, err = d.NewBackend()
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	s.start(t)
	require.True(t, s.answers(func() error {
		b, err := d.NewBackend()
		if err == nil {
			b.Close()
		}
		return err
	}))
	y := placed(t, d, 4)
	require.NoError(t, ggml.Write(y, []float32{5, 6, 7, 8}))
	got, err = ggml.Read[float32](y)
	require.NoError(t, err)
	require.Equal(t, []float32{5, 6, 7, 8}, got)
}

var placedBuffers = map[*ggml.Tensor]*ggml.Buffers{}

// placed makes an F32 tensor in memory of a device.
func placed(t testing.TB, d *ggml.Device, shape ...int64) *ggml.Tensor {
	c := ggml.NewContext()
	x := c.NewTensor(ggml.F32, shape...)
	buffers, err := c.Allocate(d.BufferType())
	require.NoError(t, err)
	placedBuffers[x] = buffers
	t.Cleanup(func() { closePlaced(x) })
	return x
}

func closePlaced(x *ggml.Tensor) {
	placedBuffers[x].Close()
	x.Context().Close()
	delete(placedBuffers, x)
}
