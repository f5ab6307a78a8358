package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
)

func TestMain(m *testing.M) {
	clitest.Main(m, map[string]func(){"rpc-server": main})
}

func TestScripts(t *testing.T) {
	clitest.RunScripts(t, testscript.Params{Dir: "testdata/script", ContinueOnError: true, Condition: clitest.Condition})
}

// start starts the program, and adds its devices to this process.
func start(t *testing.T, flags ...string) (*exec.Cmd, *testutil.Log, *ggml.Registry) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	endpoint := l.Addr().String()
	require.NoError(t, l.Close())
	server, out := exec.Command("rpc-server", append([]string{"--listen", endpoint, "--threads", "1"}, flags...)...), &testutil.Log{}
	server.Stderr = out
	require.NoError(t, server.Start())
	t.Cleanup(func() { server.Process.Kill() })
	var remote *ggml.Registry
	require.Eventually(t, func() bool {
		remote, err = ggml.AddRPCServer(endpoint)
		return err == nil
	}, time.Minute, 50*time.Millisecond, out)
	t.Cleanup(func() { require.NoError(t, remote.Unload()) })
	return server, out, remote
}

// interrupt interrupts the program; wait requires that it ends from the interrupt.
func interrupt(t *testing.T, server *exec.Cmd, out *testutil.Log) (wait func()) {
	t.Helper()
	require.NoError(t, server.Process.Signal(os.Interrupt))
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	return func() {
		t.Helper()
		select {
		case err := <-ended:
			require.ErrorContains(t, err, "exit status 130", out)
		case <-time.After(time.Minute):
			t.Fatal("it does not stop at an interrupt")
		}
	}
}

func TestServer(t *testing.T) {
	server, out, remote := start(t, "--device", "CPU,cpu")
	require.Len(t, remote.Devices(), 2)
	for _, d := range remote.Devices() {
		c := ggml.NewContext()
		x := c.NewTensor(ggml.F32, 2)
		buffers := need.Value(c.Allocate(d.BufferType()))(t)
		require.NoError(t, ggml.Write(x, []float32{1, 2}))
		got := need.Value(ggml.Read[float32](x))(t)
		require.Equal(t, []float32{1, 2}, got)
		buffers.Close()
		c.Close()
	}
	cpu := need.Value(ggml.DeviceByType(ggml.CPU))(t)
	require.Less(t, remote.Devices()[0].Properties().MemoryTotal, cpu.Properties().MemoryTotal, "what the system has left")
	interrupt(t, server, out)()
	require.Regexp(t, `rpc-server: CPU .*, CPU .*, on 127`, out.String())
	require.Contains(t, out.String(), "a client is served")
	require.Contains(t, out.String(), "a client has left")
	require.Contains(t, out.String(), "interrupted; the server has stopped")
}

// A server that is told to stop still delivers the result of a running computation.
func TestStopWaits(t *testing.T) {
	server, out, remote := start(t)
	d := remote.Devices()[0]
	b := need.Value(d.NewBackend())(t)
	defer b.Close()
	c, of := ggml.NewContext(), ggml.NewContext()
	defer c.Close()
	defer of.Close()
	x := of.NewTensor(ggml.F32, 512, 512)
	buffers := need.Value(of.Allocate(d.BufferType()))(t)
	defer buffers.Close()
	require.NoError(t, x.Memset(0))
	y := x
	for range 60 { // seconds
		y = c.MulMat(x, y)
	}
	g := c.NewGraph(c.Sum(y))
	a := need.Value(ggml.NewGraphAllocator(d.BufferType()))(t)
	defer a.Close()
	require.NoError(t, a.Allocate(g))
	idle, computed := processorTime(t, server), make(chan error, 1)
	go func() { computed <- b.Compute(context.Background(), g) }()
	require.Eventually(t, func() bool { return processorTime(t, server) >= idle+5 }, time.Minute, time.Millisecond, "it computes")
	wait := interrupt(t, server, out)
	require.NoError(t, <-computed)
	for n := range g.Nodes() {
		if n.Op() == "sum" {
			got, err := ggml.Read[float32](n)
			require.NoError(t, err, out)
			require.Equal(t, []float32{0}, got)
		}
	}
	wait()
}

// processorTime returns the processor time of a process, in ticks of 10 ms.
func processorTime(t *testing.T, c *exec.Cmd) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
	if err != nil {
		t.Skip("this system does not tell: ", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')'):])) // it ends the program's name
	return need.Value(strconv.Atoi(fields[12]))(t)
}

// fileOf opens a file of weights.
func fileOf(t *testing.T, values []float32) *ggml.GGUF {
	t.Helper()
	g := need.Value(ggml.NewGGUF())(t)
	defer g.Close()
	info := ggml.GGUFTensor{Name: "weights", Type: ggml.F32, Shape: []int64{int64(len(values))}}
	require.NoError(t, g.AddTensorFrom(info, func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, values) }))
	path := filepath.Join(t.TempDir(), "weights.gguf")
	require.NoError(t, g.WriteFile(path))
	return need.Value(ggml.OpenGGUF(path))(t)
}

// Weights of a file are sent once: the next client finds them in the cache by their hash.
func TestCache(t *testing.T) {
	folder := t.TempDir()
	_, out, remote := start(t, "--cache", folder, "--cache-size", "30")
	const n = 3 << 20 // float32 values, 12 MiB
	values := make([]float32, n)
	send := func(first float32) {
		values[0] = first
		c := ggml.NewContext()
		defer c.Close()
		file := fileOf(t, values)
		defer file.Close()
		buffers := need.Value(file.Load(c, remote.Devices()[0], ggml.LoadOptions{}))(t)
		x, _ := c.Tensor("weights")
		got := need.Value(ggml.Read[float32](x))(t)
		require.Equal(t, values, got)
		buffers.Close()
	}
	files := func() []string {
		return need.Value(filepath.Glob(filepath.Join(folder, "*")))(t)
	}
	data := regexp.MustCompile(`has left.* received=(\d{3,}) `)
	left := func(n int) string { // bytes that the last of n clients with data has sent
		require.Eventually(t, func() bool { return len(data.FindAllString(out.String(), -1)) >= n }, time.Minute, 20*time.Millisecond, out)
		return data.FindAllStringSubmatch(out.String(), -1)[n-1][1]
	}
	send(1)
	require.Len(t, left(1), 8)
	require.Len(t, files(), 1)
	send(1)
	require.Less(t, len(left(2)), 6)

	send(2)
	send(3)
	require.Len(t, left(4), 8)
	require.Len(t, files(), 2, "what was not used for longest is gone")

	// A damaged file is not used.
	for _, path := range files() {
		require.NoError(t, os.Truncate(path, 11<<20))
	}
	send(3)
	require.Contains(t, out.String(), "a damaged file")
}
