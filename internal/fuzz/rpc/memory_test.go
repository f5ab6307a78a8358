package rpc

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/test/need"
)

// slack is the memory that a server may use in addition to the memory that it lends.
const slack = 64 << 20

// status returns a field of Linux's /proc/PID/status of the server in bytes; 0 if there is none.
func (s *server) status(name string) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// checkMemory requires that the server stayed within its limit. Valgrind and the race detector use memory of
// their own.
func (s *server) checkMemory(t *testing.T) {
	if peak := s.status("VmHWM:"); *under == "" && !race {
		t.Logf("the server lends %d MiB, and took %d MiB at most", s.memory>>20, peak>>20)
		if peak > s.memory+slack {
			t.Errorf("the server lends %d MiB, and has taken %d MiB", s.memory>>20, peak>>20)
		}
	}
}

// left requires that nothing remains of clients that have disconnected.
func (s *server) left(t *testing.T) {
	t.Helper()
	c := s.dial(t)
	free := func() uint64 {
		c.send(rpcwire.GetDeviceMemory, make([]byte, 4))
		return binary.LittleEndian.Uint64(c.reply())
	}
	require.Eventually(t, func() bool { return free() == uint64(s.memory) }, time.Minute, 10*time.Millisecond, "memory is left")
}

// lending starts a server that lends mib MiB. Its buffers have no guard pages, which take memory.
func lending(t *testing.T, mib int64) *server {
	t.Setenv(memoryEnv, "plain")
	o := usual
	o.Memory = mib << 20
	return start(t, o)
}

var (
	buffers = flag.Int("buffers", 60_000, "number of buffers of a byte that a client asks for")
	looks   = flag.Uint64("stages", 5000, "number of stages of a graph")
)

// Buffers of one byte use more than a byte, and the limit counts that.
func TestTinyBuffers(t *testing.T) {
	need.Time(t, "sends graphs of many sizes")
	s := lending(t, 16)
	c := s.dial(t)
	n, batch := *buffers, 10_000
	request := message{rpcwire.AllocBuffer, binary.LittleEndian.AppendUint64([]byte{0, 0, 0, 0}, 1)}.bytes()
	got := 0
	for range n / batch {
		go c.Write([]byte(strings.Repeat(string(request), batch)))
		for range batch {
			if binary.LittleEndian.Uint64(c.reply()) != 0 {
				got++
			}
		}
	}
	t.Logf("%d buffers", got)
	require.Greater(t, got, 8_000)
	require.Less(t, got, 32_000)
	s.dial(t).served()
	c.Close()
	s.left(t)
}

// leaves returns a graph of n leaves and a node.
func leaves(c *client, n uint64) rpcwire.Graph {
	p := c.alloc(4096)
	g := rpcwire.Graph{UID: 1, Nodes: []uint64{2}, Tensors: []rpcwire.Tensor{p.tensor(1, ggml.F32, 0, 4), node(p.tensor(2, ggml.F32, 64, 4), "sqr", 1)}}
	for i := range n {
		g.Tensors = append(g.Tensors, p.tensor(3+i, ggml.F32, 0, 4))
	}
	return g
}

// Graphs count towards the limit, from before their messages have arrived until they are dropped.
func TestManyLeaves(t *testing.T) {
	s := lending(t, 64)
	c := s.dial(t)
	_, err := c.Write(binary.LittleEndian.AppendUint64([]byte{byte(rpcwire.GraphCompute)}, rpcwire.GraphSize+8+(1<<20)*rpcwire.TensorSize))
	require.NoError(t, err)
	c.refused()
	s.says(t, "graph_compute: it takes 1212416 KiB beside the data of tensors, but the server has only 65536 KiB of memory left for its clients")

	c = s.dial(t)
	g := leaves(c, 30_000)
	for uid := range uint64(8) {
		g.UID = 1 + uid
		c.send(rpcwire.GraphCompute, g.Append(nil))
	}
	c.served()
	var half []*client
	for range 4 {
		h := s.dial(t)
		message := message{rpcwire.GraphCompute, g.Append(nil)}.bytes()
		_, err := h.Write(message[:len(message)/2])
		if err != nil {
			t.Log(err)
		}
		half = append(half, h)
	}
	s.says(t, "graph_compute: it takes")
	c.served()
	for _, h := range append(half, c) {
		h.Close()
	}
	s.left(t)
}

// stages returns a graph of n stages; each looks up rows by indices that it has computed.
func stages(c *client, n uint64) []byte {
	p := c.alloc(4096)
	x, rows := p.tensor(1, ggml.F32, 0, 2), p.tensor(2, ggml.F32, 256, 1, 3)
	g := rpcwire.Graph{Tensors: []rpcwire.Tensor{x, rows}}
	for i := range n {
		ids, y := node(p.tensor(3+2*i, ggml.I32, 128, 2), "cpy", 1, 3+2*i), node(p.tensor(4+2*i, ggml.F32, 1024, 1, 2), "get_rows", 2, 3+2*i)
		g.Nodes, g.Tensors = append(g.Nodes, ids.ID, y.ID), append(g.Tensors, ids, y)
	}
	return message{rpcwire.GraphCompute, g.Append(nil)}.bytes()
}

// Stages count towards the limit, take time in proportion to their number, and stop when the client has
// disconnected.
func TestManyStages(t *testing.T) {
	need.Time(t, "sends many graphs")
	s := lending(t, 512)
	c := s.dial(t)
	begin := time.Now()
	_, err := c.Write(stages(c, *looks))
	require.NoError(t, err)
	c.served()
	t.Logf("%d stages in %v", *looks, time.Since(begin))
	require.Less(t, time.Since(begin), time.Minute)

	gone := s.dial(t)
	_, err = gone.Write(stages(gone, 4**looks))
	require.NoError(t, err)
	gone.Close()
	c.Close()
	s.left(t)
}

// The work memory of the CPU counts towards the limit.
func TestWork(t *testing.T) {
	s := lending(t, 64)
	c := s.dial(t)
	const k, n = 1 << 10, 15 << 10
	p := c.alloc(4*k*n + 2<<20)
	x, y := p.tensor(1, ggml.BF16, 4*k*n, k, 1), p.tensor(2, ggml.F32, 0, k, n)
	c.compute(x, y, node(p.tensor(3, ggml.F32, 4*k*n+1<<20, 1, n), "mul_mat", 1, 2))
	c.refused()
	s.says(t, "graph_compute: it takes 30720 KiB beside the data of tensors, but the server has only 2048 KiB of memory left for its clients")
}
