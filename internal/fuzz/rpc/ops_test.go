package rpc

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/fuzz"
	"github.com/goggml/ggml/internal/rebuild"
	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/test/need"
)

// rpcOps returns the ops that a server computes for clients.
func rpcOps() (ops []ggml.OpCode) {
	for _, name := range rebuild.Ops() {
		ops = append(ops, ggml.OpCode(opNamed(name)))
	}
	return ops
}

// eachOp computes a separate graph for each call of an op that a server supports, so that each call is a
// message.
func eachOp(t *testing.T, d *ggml.Device) {
	m := need.Value(fuzz.NewMachine())(t)
	defer m.Close()
	calls := need.Value(fuzz.NewCalls(m, 1))(t)
	defer calls.Close()
	buffers := need.Value(calls.Leaves.Allocate(d.BufferType()))(t)
	defer buffers.Close()
	require.NoError(t, calls.Write())
	b := need.Value(d.NewBackend())(t)
	defer b.Close()
	a := need.Value(ggml.NewGraphAllocator(d.BufferType()))(t)
	defer a.Close()
	known := rpcOps()
	for _, z := range calls.Results {
		if !slices.Contains(known, z.OpCode()) {
			continue
		}
		g := calls.Context.NewGraph(z)
		require.NoError(t, a.Allocate(g), z.Op())
		require.NoError(t, b.Compute(t.Context(), g), z.Op())
	}
}

// A tally counts the graphs that a server has computed, by op.
type tally struct {
	sync.Mutex
	graphs map[ggml.OpCode]int
}

func (y *tally) add(m message) {
	y.Lock()
	defer y.Unlock()
	for _, op := range m.ops() {
		y.graphs[op]++
	}
}

// String lists the ops, rarest first.
func (y *tally) String() string {
	ops := slices.SortedFunc(maps.Keys(y.graphs), func(a, b ggml.OpCode) int { return cmp.Or(y.graphs[a]-y.graphs[b], int(a-b)) })
	var list []string
	for _, op := range ops {
		list = append(list, fmt.Sprint(op, " ", y.graphs[op]))
	}
	return strings.Join(list, ", ")
}

// ops returns the ops of a graph's nodes.
func (m message) ops() (list []ggml.OpCode) {
	g, err := rpcwire.DecodeGraph(m.body)
	if m.command != rpcwire.GraphCompute || err != nil {
		return nil
	}
	for _, t := range g.Tensors {
		if op := ggml.OpCode(t.Op); slices.Contains(g.Nodes, t.ID) && !slices.Contains(list, op) {
			list = append(list, op)
		}
	}
	return list
}

// A server accepts modified messages with each op that it supports, so the modifications reach the code behind
// its checks.
func TestEachOpIsAccepted(t *testing.T) {
	s := start(t, usual)
	list := corpus(t, s)
	for _, op := range rpcOps() {
		tries := 0
		for isAccepted := false; !isAccepted; tries++ {
			require.Less(t, tries, 1000, "no changed message with %v is accepted", op)
			isAccepted = s.takes(t, uint64(tries), list, op)
		}
		t.Logf("%v: accepted at try %d", op, tries)
	}
}

// takes sends a gently modified message with an op, and reports whether the server computes it.
func (s *server) takes(t *testing.T, seed uint64, list []session, op ggml.OpCode) bool {
	t.Helper()
	r := mutator{rand.New(rand.NewPCG(seed, uint64(op))), nil}
	recorded := list[r.IntN(len(list))]
	with := slices.DeleteFunc(recorded.graphs(), func(m message) bool { return !slices.Contains(m.ops(), op) })
	if len(with) == 0 {
		return false
	}
	conn := need.Value(s.join(recorded))(t)
	defer conn.Close()
	m := with[r.IntN(len(with))]
	changed := r.gently(m)
	if string(changed.body) == string(m.body) {
		return false
	}
	return need.Value(try(conn, changed))(t)
}
