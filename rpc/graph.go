package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
)

// A clientGraph is a client's graph, with each op built anew by the method of ggml.Context that builds such an op. It is
// computed in stages: one ends before a look-up whose row numbers an op of the same stage may have written, so that they
// are known, and checked, before they are used.
type clientGraph struct {
	device  int
	c       *ggml.Context // of all stages
	stages  []stage
	buffers map[*clientBuffer]bool // in which its tensors lie
	bytes   int64                  // that it takes
	used    int64                  // when it was, to drop the one that was not for longest
}

type stage struct {
	g       *ggml.Graph // nil where nothing is computed
	lookups []lookup    // to be checked before it is computed
}

// A builder makes a clientGraph of a message.
type builder struct {
	session *session
	m       *rpcwire.Graph
	index   map[uint64]int // of tensors, by their numbers
	place   []int          // in the order of nodes, −1 for other tensors
	c       *ggml.Context
	buffers map[*clientBuffer]bool
	paid    int64 // bytes that are reserved for the graph
	objects int64 // bytes that it takes in Go

	// Of the stage:
	first   int            // its first node
	next    int            // the one that is built
	built   []*ggml.Tensor // by index, nil where not built yet
	indices []int          // of what is built
	nodes   []int          // indices of what is computed
	uses    map[int]int    // of what is built, by index
	writes  []write
	lookups []lookup
}

var errPanic = errors.New("a check of the server itself has failed")

// newBuilder makes a builder, whose context the caller closes.
func (s *session) newBuilder(m *rpcwire.Graph) *builder {
	b := &builder{
		session: s, m: m, index: make(map[uint64]int, len(m.Tensors)), place: make([]int, len(m.Tensors)), built: make([]*ggml.Tensor, len(m.Tensors)),
		c: ggml.NewContext(), buffers: map[*clientBuffer]bool{}, uses: map[int]int{}, objects: stageBytes,
	}
	for i := range m.Tensors {
		b.index[m.Tensors[i].ID] = i
		b.place[i] = -1
	}
	return b
}

// newGraph builds the graph, or says why it is refused.
func (s *session) newGraph(ctx context.Context, m *rpcwire.Graph) (g *clientGraph, err error) {
	if int64(m.Device) >= int64(len(s.server.devices)) {
		return nil, fmt.Errorf("there is no device %d", m.Device)
	}
	b := s.newBuilder(m)
	g = &clientGraph{device: int(m.Device), c: b.c, buffers: b.buffers}
	defer func() {
		if p := recover(); p != nil {
			// The context may be locked for ever, and is left to the garbage collector.
			ggml.Logger().Error("ggml: RPC server: "+errPanic.Error(), "panic", p)
			g, err = nil, errPanic
			return
		}
		if err != nil {
			g = nil
			b.c.Close()
			s.uncharge(b.paid)
		}
	}()
	if err := cmp.Or(b.c.Err(), b.order()); err != nil {
		return nil, err
	}
	if err := b.pay(); err != nil {
		return nil, err
	}
	for b.first < len(m.Nodes) {
		stage, err := b.buildStage(ctx)
		if err != nil {
			return nil, err
		}
		g.stages = append(g.stages, stage)
	}
	g.bytes = b.paid
	return g, nil
}

// order finds the place of each tensor.
func (b *builder) order() error {
	if len(b.index) != len(b.m.Tensors) {
		return errors.New("two tensors have one number")
	}
	for i, id := range b.m.Nodes {
		at, known := b.index[id]
		if !known || b.place[at] >= 0 {
			return fmt.Errorf("node %d is no tensor, or there twice", i)
		}
		b.place[at] = i
	}
	return nil
}

// Memory of Go, with garbage: of a graph and each of its stages, and of each lookup and buffer.
const stageBytes, lookupBytes = 1 << 10, 256

// pay reserves memory for what the graph takes by now, and for the next node with all of its operands.
func (b *builder) pay() error {
	const ahead = 16 << 10
	took := b.objects + lookupBytes*int64(len(b.buffers)) + b.c.MemoryAllocated()
	if took <= b.paid {
		return nil
	}
	more := took - b.paid + ahead
	if err := b.session.charge(more); err != nil {
		return err
	}
	b.paid += more
	return nil
}

// buildStage builds nodes from the first on, and moves first to the beginning of the next stage.
func (b *builder) buildStage(ctx context.Context) (s stage, err error) {
	next := b.first
	for ; next < len(b.m.Nodes); next++ {
		if ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
		if err := b.pay(); err != nil {
			return s, err
		}
		at := b.index[b.m.Nodes[next]]
		ends, err := b.node(next, at)
		if err != nil {
			return s, fmt.Errorf("node %d, %s: %w", next, opName(&b.m.Tensors[at]), err)
		}
		if ends {
			break
		}
	}
	if len(b.nodes) > 0 {
		nodes := make([]*ggml.Tensor, len(b.nodes))
		for i, at := range b.nodes {
			nodes[i] = b.built[at]
			if int(b.m.Tensors[at].Uses) > b.uses[at] { // another graph reads it: it is not fused away
				nodes[i].SetOutput()
			}
		}
		s.g = b.c.NewGraph().AddNode(nodes...)
		if err := b.c.Err(); err != nil {
			return s, err
		}
	}
	s.lookups = slices.Clone(b.lookups)
	b.objects += stageBytes + lookupBytes*int64(len(b.lookups))
	b.reset(next)
	return s, b.pay()
}

// reset begins a stage. What is built of others, it builds as leaves.
func (b *builder) reset(first int) {
	b.first = first
	for _, at := range b.indices {
		b.built[at] = nil
	}
	b.uses = map[int]int{} // to clear one that has grown takes time
	b.indices, b.nodes, b.writes, b.lookups = b.indices[:0], b.nodes[:0], b.writes[:0], b.lookups[:0]
}

// keep notes what is built at an index.
func (b *builder) keep(at int, t *ggml.Tensor) {
	b.built[at] = t
	b.indices = append(b.indices, at)
}
