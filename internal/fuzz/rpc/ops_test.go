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
func rpcOps() []string { return append(rebuild.Ops(), slices.Sorted(maps.Values(natives()))...) }

// natives maps what stands for native ops in messages to their names.
var natives = sync.OnceValue(func() map[uint64]string {
	names := map[uint64]string{}
	for _, op := range ggml.RemoteOps() {
		names[rpcwire.OpID(op.Name)] = op.Name
	}
	return names
})

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
	for _, z := range calls.Results {
		g := calls.Context.NewGraph(z)
		if !computes(d, g) {
			continue
		}
		require.NoError(t, a.Allocate(g), z.Op())
		require.NoError(t, b.Compute(t.Context(), g), z.Op())
	}
}

// computes reports whether a graph has nodes, and a server computes all.
func computes(d *ggml.Device, g *ggml.Graph) bool {
	nodes, kernels := slices.Collect(g.Nodes()), slices.Collect(maps.Values(natives()))
	for _, z := range nodes {
		if name := z.OpCode().String(); name != "none" && !rebuild.Knows(name) && !(slices.Contains(kernels, z.Op()) && d.SupportsOp(z)) {
			return false
		}
	}
	return len(nodes) > 0
}

// A tally counts the graphs that a server has computed, by op.
type tally struct {
	sync.Mutex
	graphs map[string]int
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
	ops := slices.SortedFunc(maps.Keys(y.graphs), func(a, b string) int { return cmp.Or(y.graphs[a]-y.graphs[b], strings.Compare(a, b)) })
	var list []string
	for _, op := range ops {
		list = append(list, fmt.Sprint(op, " ", y.graphs[op]))
	}
	return strings.Join(list, ", ")
}

// ops returns the ops of a graph's nodes.
func (m message) ops() (list []string) {
	g, err := rpcwire.DecodeGraph(m.body)
	if m.command != rpcwire.GraphCompute || err != nil {
		return nil
	}
	for _, t := range g.Tensors {
		if op := opName(&t); slices.Contains(g.Nodes, t.ID) && !slices.Contains(list, op) {
			list = append(list, op)
		}
	}
	return list
}

// opName returns the name of a tensor's op, of a native one its own.
func opName(t *rpcwire.Tensor) string {
	if name, known := natives()[uint64(uint32(t.Params[0]))|uint64(uint32(t.Params[1]))<<32]; known && t.Op == opNamed("custom") {
		return name
	}
	return ggml.OpCode(t.Op).String()
}

// A server accepts modified messages with each op that it supports, so the modifications reach the code behind
// its checks.
func TestEachOpIsAccepted(t *testing.T) {
	need.Time(t, "changes thousands of messages")
	s := start(t, usual)
	list := corpus(t, s)
	for i, op := range rpcOps() {
		tries := 0
		for isAccepted := false; !isAccepted; tries++ {
			require.Less(t, tries, 1000, "no changed message with %v is accepted", op)
			isAccepted = s.takes(t, uint64(1000*i+tries), list, op)
		}
		t.Logf("%v: accepted at try %d", op, tries)
	}
}

// takes sends a gently modified message with an op, and reports whether the server computes it.
func (s *server) takes(t *testing.T, seed uint64, list []session, op string) bool {
	t.Helper()
	r := mutator{rand.New(rand.NewPCG(seed, 0)), nil}
	graphs := func(s session) []message {
		return slices.DeleteFunc(s.graphs(), func(m message) bool { return !slices.Contains(m.ops(), op) })
	}
	list = slices.DeleteFunc(slices.Clone(list), func(s session) bool { return len(graphs(s)) == 0 })
	require.NotEmpty(t, list, "no session has %s", op)
	recorded := list[r.IntN(len(list))]
	with := graphs(recorded)
	conn, _, err := s.join(recorded)
	require.NoError(t, err)
	defer conn.Close()
	m := with[r.IntN(len(with))]
	changed := r.gently(m)
	if string(changed.body) == string(m.body) {
		return false
	}
	return need.Value(try(conn, changed))(t)
}
