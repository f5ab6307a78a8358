package rpc

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/test/baseline"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/rpc"
)

// serverEnv makes the test binary a server at an endpoint; optionsEnv has its options as JSON.
const (
	serverEnv  = "GOGGML_FUZZ_RPC_SERVER"
	optionsEnv = "GOGGML_FUZZ_RPC_OPTIONS"
	filesEnv   = "GOGGML_FUZZ_RPC_FILES"  // limit of open files
	memoryEnv  = "GOGGML_FUZZ_RPC_MEMORY" // plain: buffers without guard pages; short: buffers that lack their last bytes
)

// race is whether the race detector watches.
var race bool

// usual are the options of servers that must survive all messages.
var usual = rpc.Options{Threads: 2, Memory: 128 << 20, Clients: 64, Grace: time.Second}

func TestMain(m *testing.M) {
	if endpoint := os.Getenv(serverEnv); endpoint != "" {
		serve(endpoint)
		return
	}
	testutil.Main(m)
}

func serve(endpoint string) {
	ctx, stop := context.WithCancelCause(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin) // until the test ends
		stop(io.EOF)
	}()
	ggml.SetLogger(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	testhook.RPCMemory = map[string]func(int64) ([]byte, func(), error){"": guarded, "short": short}[os.Getenv(memoryEnv)]
	if n, err := strconv.ParseUint(os.Getenv(filesEnv), 10, 64); err == nil {
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
	}
	var o rpc.Options
	err := json.Unmarshal([]byte(os.Getenv(optionsEnv)), &o)
	if err == nil {
		err = rpc.Serve(ctx, endpoint, o)
	}
	if !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// guarded allocates memory between inaccessible pages; it ends directly before one.
func guarded(size int64) (memory []byte, free func(), err error) {
	page := int64(os.Getpagesize())
	room := (size + 31 + page - 1) / page * page
	all, err := unix.Mmap(-1, 0, int(room+2*page), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	unix.Mprotect(all[:page], unix.PROT_NONE)
	unix.Mprotect(all[page+room:], unix.PROT_NONE)
	begin := page + (room-size)/32*32 // ggml's alignment
	return all[begin : begin+size], func() { unix.Munmap(all) }, nil
}

// short allocates memory that lacks its last bytes.
func short(size int64) (memory []byte, free func(), err error) {
	return unsafe.Slice((*byte)(baseline.Allocate(int(size-32))), size), func() {}, nil
}

// A server is a process.
type server struct {
	endpoint string
	memory   int64 // limit for clients
	process  *exec.Cmd
	stdin    io.Closer
	ended    chan error
	log      testutil.Log
}

// start starts a server, which must survive the test and stay within its memory.
func start(t *testing.T, o rpc.Options) *server {
	t.Helper()
	var s *server
	t.Cleanup(func() { // after it has ended
		if s == nil {
			return
		}
		if list := badAccesses(s.log.String()); len(list) > 0 {
			t.Errorf("%d bad accesses:\n%s", len(list), strings.Join(list[:min(len(list), 10)], ""))
		}
	})
	s = startIn(t, "plain", o)
	return s
}

// startIn starts a server with buffers of a kind, see memoryEnv.
func startIn(t *testing.T, memory string, o rpc.Options) *server {
	t.Helper()
	options, err := json.Marshal(o)
	require.NoError(t, err)
	l := need.Value(net.Listen("tcp4", "127.0.0.1:0"))(t)
	s := &server{endpoint: l.Addr().String(), memory: o.Memory, ended: make(chan error, 1)}
	require.NoError(t, l.Close())
	self := need.Value(os.Executable())(t)
	words := append(strings.Fields(*under), self)
	s.process = exec.Command(words[0], words[1:]...)
	s.process.Env = append(os.Environ(), serverEnv+"="+s.endpoint, optionsEnv+"="+string(options))
	if *under != "" {
		s.process.Env = append(s.process.Env, memoryEnv+"="+memory)
	}
	s.process.Stderr = &s.log
	s.stdin = need.Value(s.process.StdinPipe())(t)
	require.NoError(t, s.process.Start())
	go func() { s.ended <- s.process.Wait() }()
	t.Cleanup(func() {
		s.checkMemory(t)
		s.stdin.Close()
		select {
		case err := <-s.ended:
			assert.NoError(t, err)
		case <-time.After(60 * time.Second):
			s.process.Process.Kill()
			t.Error("the server does not stop")
		}
		if t.Failed() {
			t.Log(tail(s.log.String()))
		}
		for _, sign := range []string{"GGML_ASSERT", "internal check of the server", "panic", "is broken"} {
			for line := range strings.Lines(s.log.String()) {
				if strings.Contains(line, sign) {
					t.Errorf("a check is missing: %s", line)
					break
				}
			}
		}
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp4", s.endpoint)
		if err == nil {
			c.Close()
		}
		return err == nil || len(s.ended) > 0
	}, 2*time.Minute, 20*time.Millisecond, "the server does not start")
	require.Empty(t, s.ended, "the server has ended")
	return s
}

// says waits until the server has printed a text.
func (s *server) says(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), text) }, time.Minute, 10*time.Millisecond, text)
}

// badAccesses returns the bad accesses in valgrind's log. It ignores those "in a rw- anonymous segment": Go
// switches stacks within memory that valgrind takes for a single stack.
func badAccesses(log string) (list []string) {
	var found strings.Builder
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "==") {
			continue
		}
		found.WriteString(line)
		if strings.HasSuffix(line, "== \n") {
			if text := found.String(); strings.Contains(text, "Invalid ") && !strings.Contains(text, "is in a rw- anonymous segment") {
				list = append(list, text)
			}
			found.Reset()
		}
	}
	return list
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// A client speaks the protocol.
type client struct {
	net.Conn
	t *testing.T
}

func (s *server) dial(t *testing.T) *client {
	t.Helper()
	conn, err := net.Dial("tcp4", s.endpoint)
	require.NoError(t, err, tail(s.log.String()))
	t.Cleanup(func() { conn.Close() })
	c := &client{conn, t}
	c.send(rpcwire.Hello, make([]byte, rpcwire.CapabilitiesSize))
	require.Len(t, c.reply(), rpcwire.HandshakeReplySize-8)
	return c
}

func (c *client) send(command rpcwire.Command, body []byte) {
	_, err := c.Write(append(binary.LittleEndian.AppendUint64([]byte{byte(command)}, uint64(len(body))), body...))
	if err != nil {
		c.t.Log(err) // the reply shows the cause
	}
}

func (c *client) reply() []byte {
	c.t.Helper()
	body := need.Value(readReply(c))(c.t)
	return body
}

func readReply(conn net.Conn) ([]byte, error) {
	conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	var size [8]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.LittleEndian.Uint64(size[:]))
	_, err := io.ReadFull(conn, body)
	return body, err
}

// refused requires that the server closes the connection.
func (c *client) refused() {
	c.t.Helper()
	for {
		if _, err := readReply(c); err != nil {
			require.NotErrorIs(c.t, err, os.ErrDeadlineExceeded)
			return
		}
	}
}

// served requires that the server still serves the client.
func (c *client) served() {
	c.t.Helper()
	c.send(rpcwire.DeviceCount, nil)
	require.Equal(c.t, []byte{1, 0, 0, 0}, c.reply())
}

// A place is a buffer of a client, with its address.
type place struct{ number, base uint64 }

func (c *client) alloc(size uint64) place {
	c.t.Helper()
	p, ok := c.place(size)
	require.True(c.t, ok, "there is no memory")
	return p
}

// place allocates a buffer, if there is memory.
func (c *client) place(size uint64) (p place, ok bool) {
	c.t.Helper()
	c.send(rpcwire.AllocBuffer, binary.LittleEndian.AppendUint64([]byte{0, 0, 0, 0}, size))
	number := binary.LittleEndian.Uint64(c.reply())
	if number == 0 {
		return place{}, false
	}
	c.send(rpcwire.BufferGetBase, binary.LittleEndian.AppendUint64(nil, number))
	return place{number, binary.LittleEndian.Uint64(c.reply())}, true
}

// tensor describes a contiguous leaf in the buffer.
func (p place) tensor(id uint64, typ ggml.Type, offset uint64, shape ...uint32) rpcwire.Tensor {
	t := rpcwire.Tensor{ID: id, Type: uint32(typ), Buffer: p.number, Data: p.base + offset, Ne: [4]uint32{1, 1, 1, 1}}
	copy(t.Ne[:], shape)
	t.Nb[0] = uint32(typ.BlockBytes())
	t.Nb[1] = t.Nb[0] * (t.Ne[0] / uint32(typ.BlockSize()))
	t.Nb[2] = t.Nb[1] * t.Ne[1]
	t.Nb[3] = t.Nb[2] * t.Ne[2]
	return t
}

func opNamed(name string) uint32 {
	for _, o := range ggml.OpCodes() {
		if o.String() == name {
			return uint32(o)
		}
	}
	panic(name)
}

const computed = 16 // GGML_TENSOR_FLAG_COMPUTE

// node describes a tensor that an op computes.
func node(t rpcwire.Tensor, op string, sources ...uint64) rpcwire.Tensor {
	t.Op, t.Flags = opNamed(op), computed
	copy(t.Sources[:], sources)
	return t
}

func (c *client) set(t rpcwire.Tensor, data []byte) {
	body := binary.LittleEndian.AppendUint64(append(t.Append(nil), 0), 0)
	c.send(rpcwire.SetTensor, append(body, data...))
}

func (c *client) get(t rpcwire.Tensor, n uint64) []byte {
	c.t.Helper()
	c.ask(t, n)
	return c.reply()
}

// ask asks for n bytes of a tensor.
func (c *client) ask(t rpcwire.Tensor, n uint64) {
	body := binary.LittleEndian.AppendUint64(t.Append(nil), 0)
	c.send(rpcwire.GetTensor, binary.LittleEndian.AppendUint64(body, n))
}

// compute sends a graph of one node, the last tensor.
func (c *client) compute(tensors ...rpcwire.Tensor) {
	g := rpcwire.Graph{Nodes: []uint64{tensors[len(tensors)-1].ID}, Tensors: tensors}
	c.send(rpcwire.GraphCompute, g.Append(nil))
}

func numbers(values ...int32) (p []byte) {
	for _, v := range values {
		p = binary.LittleEndian.AppendUint32(p, uint32(v))
	}
	return p
}
