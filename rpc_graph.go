package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/goggml/ggml/internal/rpcwire"
)

// An rpcGraph is a client's graph, with each op built anew by the method of Context that builds such an op. It is
// computed in stages: one ends before a look-up whose row numbers an op of the same stage may have written, so that they
// are known, and checked, before they are used.
type rpcGraph struct {
	device  int
	c       *Context // of all stages
	stages  []rpcStage
	buffers map[*rpcBuffer]bool // in which its tensors lie
	bytes   int64               // that it takes
	used    int64               // when it was, to drop the one that was not for longest
}

type rpcStage struct {
	g       *Graph
	lookups []rpcLookup // to be checked before it is computed
}

// An rpcLookup is row numbers, and how many rows there are.
type rpcLookup struct {
	ids  *Tensor
	rows int64
}

// An rpcSpan is memory of the server's process.
type rpcSpan struct{ from, to uintptr }

func (s rpcSpan) overlaps(o rpcSpan) bool { return s.from < o.to && o.from < s.to }

// spanOf is the memory of a tensor, which has some.
func spanOf(t *C.struct_ggml_tensor) rpcSpan {
	at := uintptr(t.data)
	return rpcSpan{at, at + uintptr(C.ggml_nbytes(t))}
}

// An rpcBuilder makes an rpcGraph of a message.
type rpcBuilder struct {
	session *rpcSession
	m       *rpcwire.Graph
	index   map[uint64]int // of tensors, by their numbers
	place   []int          // in the order of nodes, −1 for other tensors
	c       *Context
	buffers map[*rpcBuffer]bool
	paid    int64 // bytes that are reserved for the graph
	objects int64 // bytes that it takes in Go

	// Of the stage:
	first   int       // its first node
	next    int       // the one that is built
	built   []*Tensor // by index, nil where not built yet
	indices []int     // of what is built
	nodes   []*C.struct_ggml_tensor
	uses    map[*C.struct_ggml_tensor]int
	writes  []rpcWrite
	lookups []rpcLookup
}

// An rpcWrite is the memory that a node of the stage writes.
type rpcWrite struct {
	node *C.struct_ggml_tensor
	rpcSpan
}

var errPanic = errors.New("a check of the server itself has failed")

// newRPCBuilder makes a builder, whose context the caller closes.
func (s *rpcSession) newRPCBuilder(m *rpcwire.Graph) *rpcBuilder {
	b := &rpcBuilder{
		session: s, m: m, index: make(map[uint64]int, len(m.Tensors)), place: make([]int, len(m.Tensors)), built: make([]*Tensor, len(m.Tensors)),
		c: NewContext(), buffers: map[*rpcBuffer]bool{}, uses: map[*C.struct_ggml_tensor]int{}, objects: rpcStageBytes,
	}
	b.c.rowsUnchecked = true
	for i := range m.Tensors {
		b.index[m.Tensors[i].ID] = i
		b.place[i] = -1
	}
	return b
}

// newRPCGraph builds the graph, or says why it is refused.
func (s *rpcSession) newRPCGraph(ctx context.Context, m *rpcwire.Graph) (g *rpcGraph, err error) {
	if int64(m.Device) >= int64(len(s.server.devices)) {
		return nil, fmt.Errorf("there is no device %d", m.Device)
	}
	b := s.newRPCBuilder(m)
	g = &rpcGraph{device: int(m.Device), c: b.c, buffers: b.buffers}
	defer func() {
		if p := recover(); p != nil {
			// The context may be locked for ever, and is left to the garbage collector.
			logger().Error("ggml: RPC server: "+errPanic.Error(), "panic", p)
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
func (b *rpcBuilder) order() error {
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
const rpcStageBytes, rpcLookupBytes = 1 << 10, 256

// pay reserves memory for what the graph takes by now, and for the next node with all of its operands.
func (b *rpcBuilder) pay() error {
	const ahead = 16 << 10
	took := b.objects + rpcLookupBytes*int64(len(b.buffers)) + int64(b.c.arena.allocated+b.c.graphs.allocated)
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
func (b *rpcBuilder) buildStage(ctx context.Context) (stage rpcStage, err error) {
	next := b.first
	for ; next < len(b.m.Nodes); next++ {
		if ctx.Err() != nil {
			return stage, context.Cause(ctx)
		}
		if err := b.pay(); err != nil {
			return stage, err
		}
		at := b.index[b.m.Nodes[next]]
		ends, err := b.node(next, at)
		if err != nil {
			return stage, fmt.Errorf("node %d, %s: %w", next, rpcOpName(&b.m.Tensors[at]), err)
		}
		if ends {
			break
		}
		// Steps of optimizers ask it of their operands, which may be views that are nodes.
		if t := b.built[at]; t != nil && t.t != nil {
			t.t.flags |= C.int32_t(b.m.Tensors[at].Flags & C.GGML_TENSOR_FLAG_PARAM)
		}
	}
	g := &Graph{ctx: b.c}
	if len(b.nodes) > 0 {
		if err := g.reserve(len(b.nodes) + len(b.uses)); err != nil {
			return stage, err
		}
		if err := guardError(C.goggml_graph_expand(g.g, &b.nodes[0], C.size_t(len(b.nodes)), false)); err != nil {
			return stage, err
		}
	}
	for i := b.first; i < next; i++ {
		b.flag(b.index[b.m.Nodes[i]])
	}
	stage = rpcStage{g, slices.Clone(b.lookups)}
	b.objects += rpcStageBytes + rpcLookupBytes*int64(len(b.lookups))
	b.reset(next)
	return stage, b.pay()
}

// reset begins a stage. What is built of others, it builds as leaves.
func (b *rpcBuilder) reset(first int) {
	b.first = first
	for _, at := range b.indices {
		b.built[at] = nil
	}
	b.uses = map[*C.struct_ggml_tensor]int{} // to clear one that has grown takes time
	b.indices, b.nodes, b.writes, b.lookups = b.indices[:0], b.nodes[:0], b.writes[:0], b.lookups[:0]
}

// keep notes what is built at an index.
func (b *rpcBuilder) keep(at int, t *Tensor) {
	b.built[at] = t
	b.indices = append(b.indices, at)
}

// flag sets the flags of a node. A result that another graph reads is an output: it is not fused away.
func (b *rpcBuilder) flag(at int) {
	said, t := &b.m.Tensors[at], b.built[at]
	const known = C.GGML_TENSOR_FLAG_INPUT | C.GGML_TENSOR_FLAG_OUTPUT | C.GGML_TENSOR_FLAG_PARAM | C.GGML_TENSOR_FLAG_LOSS | C.GGML_TENSOR_FLAG_COMPUTE
	t.t.flags = C.int32_t(said.Flags & known)
	if int(said.Uses) > b.uses[t.t] {
		t.t.flags |= C.GGML_TENSOR_FLAG_OUTPUT
	}
}

func rpcOpName(t *rpcwire.Tensor) string { return OpCode(t.Op).String() }

// node builds the tensor at an index as node i. The stage ends before it where it reports so.
func (b *rpcBuilder) node(i, at int) (ends bool, err error) {
	said := &b.m.Tensors[at]
	b.next = i
	if said.Op == C.GGML_OP_NONE || emptyShape(said.Ne) { // there is nothing to compute
		t := b.built[at]
		if t == nil {
			if t, err = b.leaf(at); err != nil {
				return false, err
			}
		}
		b.add(t)
		return false, nil
	}
	if said.Op >= C.GGML_OP_COUNT {
		return false, errors.New("there is no such op")
	}
	build := rpcOps[C.enum_ggml_op(said.Op)]
	if build == nil {
		return false, errors.New("a client cannot have this op")
	}
	n := &rpcNode{Tensor: said, c: b.c}
	for k, id := range said.Sources {
		if id == 0 || id == said.ID { // of a cast
			continue
		}
		if n.sources[k], err = b.source(i, id); err != nil {
			return false, fmt.Errorf("operand %d: %w", k, err)
		}
		if emptyShape(b.m.Tensors[b.index[id]].Ne) {
			return false, fmt.Errorf("operand %d has no elements", k)
		}
	}
	t := build(n, n.sources[0], n.sources[1], n.sources[2])
	if err := b.c.Err(); err != nil {
		return false, err
	}
	if err := b.compare(t, n); err != nil {
		return false, err
	}
	if err := b.locate(at, t); err != nil {
		return false, err
	}
	if !bool(C.goggml_is_layout_op(t.t)) {
		if ends, err = b.computed(t, said); ends || err != nil {
			return ends, err
		}
	}
	b.keep(at, t)
	b.add(t)
	for _, p := range t.t.src {
		if p != nil {
			b.uses[p]++
		}
	}
	return false, nil
}

// add puts a tensor into the graph, unless it is a view of memory elsewhere: a scheduler leaves such views in place,
// unused.
func (b *rpcBuilder) add(t *Tensor) {
	if bool(C.goggml_has_memory(t.t)) {
		b.nodes = append(b.nodes, t.t)
	}
}

// source finds or builds an operand of node i.
func (b *rpcBuilder) source(i int, id uint64) (*Tensor, error) {
	at, known := b.index[id]
	if !known {
		return nil, errors.New("there is no such tensor")
	}
	if t := b.built[at]; t != nil {
		return t, nil
	}
	if b.place[at] >= i {
		return nil, errors.New("it is computed later, or depends on itself")
	}
	return b.leaf(at)
}

// leaf builds a tensor that this stage does not compute: a type, a layout, and a place.
func (b *rpcBuilder) leaf(at int) (*Tensor, error) {
	said := &b.m.Tensors[at]
	l, err := layoutOf(said)
	if err != nil {
		return nil, err
	}
	one := C.int64_t(1)
	r := C.goggml_op_new_tensor(b.c.arena, C.GGML_TYPE_I8, 1, &one)
	if err := guardError(r.error); err != nil {
		return nil, err
	}
	p := r.value
	l.set(p)
	p.flags = C.int32_t(said.Flags & (C.GGML_TENSOR_FLAG_INPUT | C.GGML_TENSOR_FLAG_OUTPUT | C.GGML_TENSOR_FLAG_PARAM))
	if said.ViewSource != 0 {
		if err := b.view(p, said); err != nil {
			return nil, err
		}
	}
	t := newTensor(b.c, p)
	if err := b.locate(at, t); err != nil {
		return nil, err
	}
	b.keep(at, t)
	return t, nil
}

// view makes a leaf a view of its root.
func (b *rpcBuilder) view(p *C.struct_ggml_tensor, said *rpcwire.Tensor) error {
	at, known := b.index[said.ViewSource]
	if !known || said.ViewSource == said.ID || b.m.Tensors[at].ViewSource != 0 {
		return errors.New("there is nothing of which it is a view")
	}
	root := b.built[at]
	if root == nil {
		if b.place[at] >= b.next {
			return errors.New("it is a view of what is computed later")
		}
		var err error
		if root, err = b.leaf(at); err != nil {
			return err
		}
	}
	p.view_src, p.view_offs = root.t, C.size_t(said.ViewOffset)
	return nil
}

// compare demands that the built tensor is what the client says.
func (b *rpcBuilder) compare(t *Tensor, n *rpcNode) error {
	said := n.Tensor
	switch {
	case C.enum_ggml_op(said.Op) != t.t.op:
		return errors.New("another op")
	case t.typ != n.typ() || t.ne != n.shape4():
		return fmt.Errorf("its result is %v %v, not %v %v", t.typ, t.ne, n.typ(), n.shape4())
	case !sameParams(t.t, said):
		return fmt.Errorf("its parameters %v are not those of an op with these operands and this result: %v", said.Params, t.t.op_params)
	}
	for i, nb := range t.t.nb {
		if uint32(nb) != said.Nb[i] {
			return fmt.Errorf("its strides are %v, not %v", t.t.nb, said.Nb)
		}
	}
	for k, p := range t.t.src {
		want := n.sources[k].ptr()
		if said.Sources[k] == said.ID {
			want = t.t
		}
		if p != want {
			return fmt.Errorf("operand %d is another one", k)
		}
	}
	if (t.t.view_src != nil) != (said.ViewSource != 0) {
		return errors.New("it is a view, or none, as the client says otherwise")
	}
	if t.t.view_src == nil {
		return nil
	}
	at, known := b.index[said.ViewSource]
	if !known || b.built[at] == nil || b.built[at].t != t.t.view_src || uint64(t.t.view_offs) != said.ViewOffset {
		return errors.New("it is a view of something else")
	}
	return nil
}

func sameParams(t *C.struct_ggml_tensor, said *rpcwire.Tensor) bool {
	for i, p := range t.op_params {
		if int32(p) != said.Params[i] {
			return false
		}
	}
	return true
}

// locate gives a tensor its memory, where the client has it.
func (b *rpcBuilder) locate(at int, t *Tensor) error {
	said := &b.m.Tensors[at]
	switch {
	case emptyShape(said.Ne):
		return nil
	case said.Buffer == 0 && t.t.data != nil:
		return errors.New("it is a view of what lies here, and lies elsewhere")
	case said.Buffer == 0:
		return nil // what needs its memory is refused
	}
	buf, offset, err := b.session.find(said)
	if err != nil {
		return err
	}
	if root := t.t.view_src; root != nil {
		if root.data == nil || root.buffer != buf.b.b || unsafe.Add(root.data, t.t.view_offs) != buf.at(offset) {
			return errors.New("it does not lie where what it is a view of does")
		}
		if int64(t.t.view_offs)%t.typ.BlockBytes() != 0 || int64(t.t.view_offs)+max(int64(C.ggml_nbytes(t.t)), t.packedSize()) > int64(C.ggml_nbytes(root)) {
			return errors.New("it reaches beyond what it is a view of")
		}
	} else if err := buf.holds(t.t, offset); err != nil {
		return err
	}
	b.buffers[buf] = true
	t.t.buffer, t.t.data = buf.b.b, buf.at(offset)
	return nil
}

// computed checks the memory that a node reads and writes. Where its row numbers may be what an earlier node of the
// stage has written, the stage ends before it.
func (b *rpcBuilder) computed(t *Tensor, said *rpcwire.Tensor) (ends bool, err error) {
	if t.t.data == nil {
		return false, errors.New("its result has no memory")
	}
	result := spanOf(t.t)
	for k, p := range t.t.src {
		if p == nil || p == t.t || p.data == nil || !result.overlaps(spanOf(p)) || allowsOverlap(t.t, p) {
			continue
		}
		return false, fmt.Errorf("its result shares memory with operand %d", k)
	}
	if said.Flags&C.GGML_TENSOR_FLAG_COMPUTE == 0 {
		return false, nil
	}
	t.t.flags |= C.GGML_TENSOR_FLAG_COMPUTE
	var index C.goggml_row_index
	if bool(C.goggml_row_index_of(t.t, &index)) {
		if ends, err = b.lookup(t, &index); ends || err != nil {
			return ends, err
		}
	}
	b.writes = append(b.writes, rpcWrite{t.t, result})
	return false, nil
}

// allowsOverlap reports whether a result may lie over an operand: over one that it is a view of, or over one of its own
// layout, as ggml's allocator puts it. Over another one an op would change what it has still to read, and one that sorts
// goes astray by that.
func allowsOverlap(t, p *C.struct_ggml_tensor) bool {
	if t.view_src != nil && (p == t.view_src || p.view_src == t.view_src) {
		return true
	}
	return t.data == p.data && t._type == p._type && t.ne == p.ne && t.nb == p.nb
}

// maxRPCWrites is how many nodes a stage has before a lookup at most: their results are compared with its row numbers.
const maxRPCWrites = 1 << 14

// lookup sees to it that row numbers are in range when they are used.
func (b *rpcBuilder) lookup(t *Tensor, index *C.goggml_row_index) (ends bool, err error) {
	ids := index.ids
	if ids.data == nil {
		return false, errors.New("its row numbers have no memory")
	}
	span := spanOf(ids)
	if span.overlaps(spanOf(t.t)) {
		return false, errors.New("it overwrites its row numbers")
	}
	if len(b.writes) > maxRPCWrites {
		return true, nil
	}
	var writers []*C.struct_ggml_tensor
	for _, w := range b.writes {
		if w.overlaps(span) {
			writers = append(writers, w.node)
		}
	}
	switch {
	case len(writers) == 0:
		b.lookups = append(b.lookups, rpcLookup{newTensor(b.c, ids), int64(index.rows)})
		return false, nil
	case len(writers) == 1 && writers[0] == C.goggml_origin(ids) && countsRows(writers[0], int64(index.rows)):
		return false, nil
	}
	return true, nil
}

// countsRows reports whether an op makes numbers of rows, of which there are so many.
func countsRows(t *C.struct_ggml_tensor, rows int64) bool {
	switch t.op {
	case C.GGML_OP_ARGMAX, C.GGML_OP_ARGSORT, C.GGML_OP_TOP_K:
		return int64(t.src[0].ne[0]) <= rows
	}
	return false
}

// check demands that row numbers are in range, as they are now.
func (s *rpcSession) check(l rpcLookup) error {
	t := l.ids.t
	var data unsafe.Pointer
	if n := int64(C.ggml_nbytes(t)); bool(C.ggml_backend_buffer_is_host(t.buffer)) {
		data = t.data
	} else {
		if err := s.charge(n); err != nil {
			return err
		}
		defer s.uncharge(n)
		values := make([]byte, n)
		if err := guardError(C.goggml_tensor_get(t, unsafe.Pointer(&values[0]), 0, C.size_t(n))); err != nil {
			return err
		}
		data = unsafe.Pointer(&values[0])
	}
	ids := CustomTensor{Type: l.ids.typ, Shape: l.ids.ne, data: data}
	for d, nb := range t.nb {
		ids.Stride[d] = int64(nb)
	}
	for i := range l.ids.NumElements() {
		var id int64
		switch p := ids.at(i); l.ids.typ {
		case I64:
			id = *(*int64)(p)
		default:
			id = int64(*(*int32)(p))
		}
		if id < 0 || id >= l.rows {
			return fmt.Errorf("row index %d is out of range: there are %d rows", id, l.rows)
		}
	}
	return nil
}

// An rpcLayout is type, shape and strides, checked.
type rpcLayout struct {
	typ   Type
	ne    [MaxDims]int64
	nb    [MaxDims]int64
	bytes int64 // from the first to the last
}

// maxRPCBuffer bounds buffers, and so tensors.
const maxRPCBuffer = 1 << 40

func emptyShape(ne [MaxDims]uint32) bool { return slices.Contains(ne[:], 0) }

// layoutOf reads the layout of a tensor, whose elements take no more room than there is from the first to the last.
func layoutOf(t *rpcwire.Tensor) (l rpcLayout, err error) {
	l.typ = Type(t.Type)
	if t.Type >= uint32(len(typeTable)) || !l.typ.IsValid() {
		return l, fmt.Errorf("there is no type %d", t.Type)
	}
	block, size := l.typ.BlockSize(), l.typ.BlockBytes()
	canonical := [MaxDims]int64{size}
	elements := uint64(1)
	for i, n := range t.Ne {
		l.ne[i] = int64(n)
		over, product := bits.Mul64(elements, uint64(n))
		if elements = product; over != 0 || elements > maxRPCBuffer*8 {
			return l, errors.New("it is too large")
		}
		if i+1 < MaxDims {
			rows := l.ne[i]
			if i == 0 {
				rows = (rows + block - 1) / block
			}
			canonical[i+1] = canonical[i] * rows
		}
	}
	for i, nb := range t.Nb {
		l.nb[i] = int64(nb)
		if uint32(canonical[i]) == nb { // the protocol has its low 32 bits
			l.nb[i] = canonical[i]
		}
		if l.nb[i]%size != 0 {
			return l, fmt.Errorf("stride %d is %d, no multiple of the %d bytes of a block", i, nb, size)
		}
	}
	if elements == 0 {
		return l, nil
	}
	// As ggml counts them; none of the products overflows, as sizes and strides have 32 bits or are canonical.
	end := uint64(size)
	first := 0
	if block > 1 {
		end, first = uint64(l.ne[0])*uint64(l.nb[0])/uint64(block), 1
	}
	for i := first; i < MaxDims; i++ {
		over, extent := bits.Mul64(uint64(l.ne[i]-1), uint64(l.nb[i]))
		if end += extent; over != 0 || extent > maxRPCBuffer || end > maxRPCBuffer {
			return l, errors.New("it is too large")
		}
	}
	l.bytes = int64(end)
	if packed := elements / uint64(block) * uint64(size); packed > end && t.ViewSource == 0 {
		return l, errors.New("its elements share memory")
	}
	return l, nil
}

// set gives a C tensor the layout.
func (l *rpcLayout) set(p *C.struct_ggml_tensor) {
	p._type = C.enum_ggml_type(l.typ)
	for i := range MaxDims {
		p.ne[i], p.nb[i] = C.int64_t(l.ne[i]), C.size_t(l.nb[i])
	}
}

// allocSize is the room of the first tensor of m, whose operands the others are.
func (s *rpcSession) allocSize(d *rpcDevice, m *rpcwire.Graph) (int64, error) {
	for i := range m.Tensors {
		m.Tensors[i].Buffer, m.Tensors[i].ViewSource = 0, 0 // only layouts count
	}
	b := s.newRPCBuilder(m)
	defer b.c.Close()
	t, err := b.leaf(0)
	if err != nil {
		return 0, err
	}
	said := &m.Tensors[0]
	switch said.Op {
	case C.GGML_OP_FLASH_ATTN_EXT, C.GGML_OP_MUL_MAT_ID: // which take more on some devices
		n := &rpcNode{Tensor: said, c: b.c}
		for k, id := range said.Sources {
			if id == 0 {
				continue
			}
			if n.sources[k], err = b.source(0, id); err != nil {
				return 0, fmt.Errorf("operand %d: %w", k, err)
			}
			if emptyShape(m.Tensors[b.index[id]].Ne) {
				return 0, fmt.Errorf("operand %d has no elements", k)
			}
		}
		t = rpcOps[C.enum_ggml_op(said.Op)](n, n.sources[0], n.sources[1], n.sources[2])
		if err := b.c.Err(); err != nil {
			return 0, err
		}
	}
	return d.BufferType().room(t)
}
