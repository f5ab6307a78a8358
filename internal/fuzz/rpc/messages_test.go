package rpc

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/test/need"
)

var (
	messages = flag.Int64("messages", 3000, "number of changed messages to send")
	first    = flag.Uint64("first", 1, "seed of the first client; those after it follow")
	under    = flag.String("under", "", "command that runs the servers, such as valgrind; buffers have no guard pages then")
)

// Modified messages of recorded sessions neither end the server, nor reach memory of another client, nor block
// other clients.
func TestMessages(t *testing.T) {
	most := *messages
	if testing.Short() {
		most = min(most, 250)
	}
	s := start(t, usual)
	list := corpus(t, s)
	var all []message
	for _, recorded := range list {
		t.Logf("a session of %d messages", len(recorded))
		all = append(all, recorded...)
	}
	var sent, refused, next atomic.Int64
	taken := &tally{graphs: map[string]int{}}
	var slowest atomic.Int64 // client's wait, in nanoseconds
	stop := make(chan struct{})
	waited := s.watch(t, stop)
	var workers sync.WaitGroup
	for range 4 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for sent.Load() < most && !t.Failed() {
				seed := *first + uint64(next.Add(1)-1)
				begin := time.Now()
				n, end, err := s.pester(seed, list, all, taken)
				took := int64(time.Since(begin))
				for old := slowest.Load(); took > old && !slowest.CompareAndSwap(old, took); old = slowest.Load() {
				}
				sent.Add(n)
				refused.Add(end)
				if err != nil {
					t.Errorf("%v\nagain: go test ./internal/fuzz/rpc -run TestMessages -messages 1 -first %d", err, seed)
				}
			}
		}()
	}
	workers.Wait()
	close(stop)
	t.Logf("%d messages of %d clients, %d refused; a client took %v at most, another one waited for %v at most",
		sent.Load(), next.Load(), refused.Load(), time.Duration(slowest.Load()), <-waited)
	t.Log("graphs that were computed, by op: ", taken)
	s.left(t)
}

// pester sends modified messages until one is refused, or a number of them was sent.
func (s *server) pester(seed uint64, list []session, all []message, taken *tally) (sent, refused int64, err error) {
	r := mutator{rand.New(rand.NewPCG(seed, 0)), all}
	recorded := list[r.IntN(len(list))]
	conn, buffers, err := s.join(recorded)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	r.fill(conn, buffers)
	for range 12 {
		m := r.message(recorded)
		sent++
		if isAccepted, err := try(conn, m); err != nil || !isAccepted {
			return sent, 1, err
		}
		taken.add(m)
	}
	return sent, 0, nil
}

// join returns a client with the buffers of a recorded one, and their numbers.
func (s *server) join(recorded session) (net.Conn, []uint64, error) {
	conn, err := net.Dial("tcp4", s.endpoint)
	if err != nil {
		return nil, nil, err
	}
	go func() { // a message and its reply may both exceed the socket buffers
		setup := message{rpcwire.Hello, make([]byte, rpcwire.CapabilitiesSize)}.bytes()
		for _, m := range recorded.allocations() {
			setup = append(setup, m.bytes()...)
		}
		conn.Write(setup)
	}()
	var buffers []uint64
	for i := range 1 + len(recorded.allocations()) {
		reply, err := readReply(conn)
		if err != nil {
			conn.Close()
			return nil, nil, fmt.Errorf("a client that does no harm: %w", err)
		}
		if i > 0 {
			buffers = append(buffers, binary.LittleEndian.Uint64(reply))
		}
	}
	return conn, buffers, nil
}

// try sends a message, and reports whether it is accepted.
func try(conn net.Conn, m message) (isAccepted bool, err error) {
	go conn.Write(append(m.bytes(), message{rpcwire.DeviceCount, nil}.bytes()...))
	for range repliesTo(m) {
		if _, err := readReply(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			return false, fmt.Errorf("no answer to %v of %d bytes", m.command, len(m.body))
		} else if err != nil {
			return false, nil
		}
	}
	return true, nil
}

// repliesTo returns the number of replies to a message and to the request after it.
func repliesTo(m message) int {
	switch m.command {
	case rpcwire.FreeBuffer, rpcwire.BufferClear, rpcwire.SetTensor, rpcwire.GraphCompute, rpcwire.InitTensor, rpcwire.GraphRecompute,
		rpcwire.MemsetTensor, rpcwire.SetTensor2D, rpcwire.CommAllReduce, rpcwire.CommFree:
		return 1
	}
	return 2
}

// A canary is a client whose memory nobody else may change, with a leaf and its squares.
type canary struct {
	*client
	leaf, squares rpcwire.Tensor
	want          []byte
}

// canary connects one; nil if other clients have taken all memory that the server gives.
func (s *server) canary(t *testing.T) *canary {
	const n = 1 << 10
	c := s.dial(t)
	p, ok := c.place(8 * n)
	if !ok {
		c.Close()
		return nil
	}
	k := &canary{client: c, leaf: p.tensor(1, ggml.F32, 0, n), squares: node(p.tensor(2, ggml.F32, 4*n, n), "sqr", 1)}
	var values []byte
	for i := range n {
		values = binary.LittleEndian.AppendUint32(values, math.Float32bits(float32(i%100)))
		k.want = binary.LittleEndian.AppendUint32(k.want, math.Float32bits(float32(i%100*(i%100))))
	}
	c.set(k.leaf, values)
	return k
}

// watch lets a canary compute until stop is closed; then the channel has its longest wait. A server that has no memory left for a
// graph refuses the canary as any other client, and another one follows.
func (s *server) watch(t *testing.T, stop chan struct{}) <-chan time.Duration {
	waited := make(chan time.Duration, 1)
	go func() {
		defer close(waited) // also if a requirement fails
		var longest time.Duration
		refused := 0
		for k := s.canary(t); ; {
			select {
			case <-stop:
				if k != nil {
					k.Close()
				}
				if explained := strings.Count(s.log.String(), "of memory left for its clients"); explained < refused {
					t.Errorf("the server has refused %d canaries, and a lack of memory explains %d", refused, explained)
				}
				waited <- longest
				return
			case <-time.After(20 * time.Millisecond):
			}
			if k == nil {
				k = s.canary(t)
				continue
			}
			begin := time.Now()
			k.compute(k.leaf, k.squares)
			k.ask(k.squares, uint64(len(k.want)))
			got, err := readReply(k)
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
				t.Error("another client blocks this one")
				return
			case err != nil:
				k.Close()
				k, refused = nil, refused+1
			case string(got) != string(k.want):
				t.Error("another client has changed what this one computes")
				return
			}
			if longest = max(longest, time.Since(begin)); longest > time.Minute {
				t.Errorf("another client kept this one waiting for %v", longest)
			}
		}
	}()
	return waited
}

// A client with a long computation does not block others, and the server notices when it disconnects.
func TestLongComputation(t *testing.T) {
	need.Time(t, "computes for a second")
	s := start(t, usual)
	c := s.dial(t)
	const n = 1024
	p := c.alloc(8 * n * n)
	tensors := []rpcwire.Tensor{p.tensor(1, ggml.F32, 0, n, n)}
	g := rpcwire.Graph{}
	for i := range uint64(1000) { // more than a minute
		tensors = append(tensors, node(p.tensor(2+i, ggml.F32, 4*n*n, n, n), "mul_mat", 1, 1))
		g.Nodes = append(g.Nodes, 2+i)
	}
	g.Tensors = tensors
	c.send(rpcwire.GraphCompute, g.Append(nil))
	time.Sleep(300 * time.Millisecond)
	other := s.dial(t)
	q := other.alloc(64)
	other.set(q.tensor(1, ggml.F32, 0, 1), make([]byte, 4))
	other.compute(q.tensor(1, ggml.F32, 0, 1), node(q.tensor(2, ggml.F32, 32, 1), "sqr", 1))
	require.Equal(t, make([]byte, 4), other.get(q.tensor(2, ggml.F32, 32, 1), 4))
	require.NotContains(t, s.log.String(), "graphs=", "the first client computes on")
	require.NoError(t, c.Close())
	s.says(t, "a client has left")
}
