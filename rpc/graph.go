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

// A clientGraph is a client's graph, with each op rebuilt by the method of ggml.Context that builds
// such an op. It is computed in stages: a stage ends before a look-up whose row numbers an op of
// the same stage may have written, so that the numbers can be checked before use.
type clientGraph struct {
	device  int
	c       *ggml.Context // context of all stages
	stages  []stage
	buffers map[*clientBuffer]bool // buffers of its tensors
	bytes   int64                  // memory in bytes
	used    int64                  // time of last use, to drop the least recently used graph
}

type stage struct {
	g       *ggml.Graph // nil if nothing is computed
	lookups []lookup    // to check before computing
	scratch int64       // most bytes that each thread takes for a native op
}

// A builder makes a clientGraph from a message.
type builder struct {
	session *session
	m       *rpcwire.Graph
	index   map[uint64]int // index of a tensor by its number
	place   []int          // position in node order; −1 if not a node
	c       *ggml.Context
	buffers map[*clientBuffer]bool
	paid    int64 // bytes reserved for the graph
	objects int64 // bytes in Go memory

	// Of the stage:
	first   int            // its first node
	next    int            // the node being built
	built   []*ggml.Tensor // by index, nil if not built yet
	indices []int          // indices of built tensors
	nodes   []int          // indices of computed tensors
	uses    map[int]int    // uses of built tensors, by index
	writes  []write
	lookups []lookup
	scratch int64
}

var errPanic = errors.New("an internal check of the server failed")

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

// newGraph builds the graph, or returns why it is refused.
func (s *session) newGraph(ctx context.Context, m *rpcwire.Graph) (g *clientGraph, err error) {
	if int64(m.Device) >= int64(len(s.server.devices)) {
		return nil, fmt.Errorf("there is no device %d", m.Device)
	}
	b := s.newBuilder(m)
	g = &clientGraph{device: int(m.Device), c: b.c, buffers: b.buffers}
	defer func() {
		if p := recover(); p != nil {
			// The context may be locked forever, and is left to the garbage collector.
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

// order determines the position of each tensor.
func (b *builder) order() error {
	if len(b.index) != len(b.m.Tensors) {
		return errors.New("two tensors have the same number")
	}
	for i, id := range b.m.Nodes {
		at, known := b.index[id]
		if !known || b.place[at] >= 0 {
			return fmt.Errorf("node %d is not a tensor, or is listed twice", i)
		}
		b.place[at] = i
	}
	return nil
}

// Go memory, with garbage: of a graph and each stage, and of each lookup and buffer.
const stageBytes, lookupBytes = 1 << 10, 256

// pay reserves memory for the graph so far, and for the next node with all of its operands.
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

// buildStage builds the nodes of a stage, from first on, and sets first to the start of the next
// stage.
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
			if int(b.m.Tensors[at].Uses) > b.uses[at] { // another graph reads it: it must not be fused away
				nodes[i].SetOutput()
			}
		}
		s.g = b.c.NewGraph().AddNode(nodes...)
		if err := b.c.Err(); err != nil {
			return s, err
		}
	}
	s.lookups, s.scratch = slices.Clone(b.lookups), b.scratch
	b.objects += stageBytes + lookupBytes*int64(len(b.lookups))
	b.reset(next)
	return s, b.pay()
}

// reset begins a stage. Tensors of other stages become leaves.
func (b *builder) reset(first int) {
	b.first = first
	for _, at := range b.indices {
		b.built[at] = nil
	}
	b.uses = map[int]int{} // clearing a grown map takes time
	b.indices, b.nodes, b.writes, b.lookups = b.indices[:0], b.nodes[:0], b.writes[:0], b.lookups[:0]
	b.scratch = 0
}

// keep records the tensor built at an index.
func (b *builder) keep(at int, t *ggml.Tensor) {
	b.built[at] = t
	b.indices = append(b.indices, at)
}
