package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// TestMain is the program itself when a test starts it.
func TestMain(m *testing.M) {
	if os.Getenv("RPC_SERVER_TEST") != "" {
		go func() {
			io.Copy(io.Discard, os.Stdin) // until the test ends
			os.Exit(0)
		}()
		main()
		return
	}
	os.Exit(m.Run())
}

func TestServer(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	endpoint := l.Addr().String()
	require.NoError(t, l.Close())
	self, err := os.Executable()
	require.NoError(t, err)
	server := exec.Command(self, "--listen", endpoint, "--threads", "1", "--devices", "CPU,cpu")
	server.Env = append(os.Environ(), "RPC_SERVER_TEST=1")
	_, err = server.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer server.Process.Kill()
	var remote *ggml.Registry
	require.Eventually(t, func() bool {
		remote, err = ggml.AddRPCServer(endpoint)
		return err == nil
	}, 20*time.Second, 50*time.Millisecond)
	require.Len(t, remote.Devices(), 2)
	for _, d := range remote.Devices() {
		c := ggml.NewContext()
		x := c.NewTensor(ggml.F32, 2)
		buffers, err := c.Allocate(d.BufferType())
		require.NoError(t, err)
		require.NoError(t, ggml.Write(x, []float32{1, 2}))
		got, err := ggml.Read[float32](x)
		require.NoError(t, err)
		require.Equal(t, []float32{1, 2}, got)
		buffers.Close()
		c.Close()
	}
	require.NoError(t, server.Process.Signal(os.Interrupt))
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "exit status 130")
	case <-time.After(20 * time.Second):
		t.Fatal("it does not stop at an interrupt")
	}
}

// An address that others reach is served with a warning; this one is no host's, so nothing listens.
func TestPublicAddressWarns(t *testing.T) {
	var out bytes.Buffer
	require.Error(t, run(t.Context(), []string{"--listen", "192.0.2.1:1", "--any-address"}, &out))
	require.Contains(t, out.String(), "rpc-server: every program that reaches 192.0.2.1:1 uses the devices and reads their memory")
}

func TestErrors(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"--devices", "Abacus"}, io.Discard), `device "Abacus"`)
	require.ErrorContains(t, run(t.Context(), []string{"--listen", "0.0.0.0:1"}, io.Discard), "give --any-address too")
	require.ErrorContains(t, run(t.Context(), []string{"--no"}, io.Discard), "not defined")
	require.ErrorContains(t, run(t.Context(), []string{"0.0.0.0:1", "--any-address"}, io.Discard), `unexpected argument "0.0.0.0:1"`)
	require.ErrorContains(t, run(t.Context(), []string{"--cache", "main.go"}, io.Discard), "main.go is no folder")
	require.ErrorContains(t, run(t.Context(), []string{"--cache", "absent"}, io.Discard), "absent: no such file")
	require.ErrorContains(t, run(t.Context(), []string{"--threads", "-1"}, io.Discard), "--threads -1")
	require.EqualError(t, run(t.Context(), []string{"--threads", "999999999"}, io.Discard), "--threads 999999999: it must be at least 0 and at most 512")
	require.NoError(t, run(t.Context(), []string{"-help"}, io.Discard))
	devices, err := choose("")
	require.NoError(t, err)
	require.NotEmpty(t, devices)
}
