package rpc

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rebuild"
	"github.com/goggml/ggml/internal/rpcwire"
)

var opNames = func() (names []string) {
	for _, code := range ggml.OpCodes() {
		names = append(names, code.String())
	}
	return names
}()

func opName(t *rpcwire.Tensor) string {
	if int64(t.Op) >= int64(len(opNames)) {
		return fmt.Sprintf("op %d", t.Op)
	}
	return opNames[t.Op]
}

// isLayoutOp reports whether an op only changes the layout.
func isLayoutOp(name string) bool {
	switch name {
	case "none", "view", "reshape", "permute", "transpose":
		return true
	}
	return false
}

// node builds the tensor at an index as node i. If it returns ends, the stage ends before this
// node.
func (b *builder) node(i, at int) (ends bool, err error) {
	said := &b.m.Tensors[at]
	name := opName(said)
	b.next = i
	if emptyShape(said.Ne) {
		return false, nil // nothing to compute
	}
	native := b.nativeOp(said)
	if name != "none" && native == nil && !rebuild.Knows(name) {
		return false, errors.New("clients may not use this op")
	}
	if name == "none" || said.Flags&rpcwire.FlagCompute == 0 { // a branch that the client has not chosen
		if b.built[at] == nil {
			_, err = b.leaf(at)
		}
		return false, err
	}
	n, err := b.describe(i, said)
	if err != nil {
		return false, err
	}
	if native != nil {
		return false, b.native(at, native, n)
	}
	if ends, err := b.lookup(said, name); ends || err != nil {
		return ends, err
	}
	t := rebuild.Build(b.c, n)
	if err := cmp.Or(b.c.Err(), boundWindows(t, n)); err != nil {
		return false, err
	}
	return false, b.take(at, t, n)
}

// take compares the tensor built for the node at an index with the client's description, and gives it its memory.
func (b *builder) take(at int, t *ggml.Tensor, n rebuild.Node) error {
	said := &b.m.Tensors[at]
	if err := b.compare(t, said, n); err != nil {
		return err
	}
	flag(t, said.Flags)
	if err := b.bind(t, said); err != nil {
		return err
	}
	b.keep(at, t)
	if !isLayoutOp(n.Op) {
		if err := b.writesResult(at); err != nil {
			return err
		}
	}
	if said.Buffer != 0 { // a scheduler leaves unused views of tensors on other devices in the graph
		b.nodes = append(b.nodes, at)
	}
	for _, id := range said.Sources {
		if id != 0 {
			b.uses[b.index[id]]++
		}
	}
	return nil
}

// describe returns the description of node i, with its operands built.
func (b *builder) describe(i int, said *rpcwire.Tensor) (n rebuild.Node, err error) {
	n = rebuild.Node{Op: opName(said), InPlace: said.ViewSource != 0, Sources: make([]*ggml.Tensor, len(said.Sources))}
	n.Result.Type = ggml.Type(said.Type)
	for k := range said.Ne {
		n.Result.Shape[k], n.Result.Stride[k] = int64(said.Ne[k]), int64(said.Nb[k])
	}
	if n.Op == "flash_attn_ext" {
		said.Params[4] = 0 // the client's promise about its mask ([ggml.Tensor.SetMaxKeys]) is not trusted
	}
	n.Params = said.Params
	for k, id := range said.Sources {
		if id == 0 || id == said.ID { // a cast is its own operand
			continue
		}
		if n.Sources[k], err = b.source(i, id); err != nil {
			return n, fmt.Errorf("operand %d: %w", k, err)
		}
	}
	return n, nil
}

// boundWindows refuses pooling whose time is out of proportion to the memory: the windows contain
// mostly padding.
func boundWindows(t *ggml.Tensor, n rebuild.Node) error {
	steps := 1.0
	switch n.Op {
	case "pool_1d":
		steps = float64(n.Params[1])
	case "pool_2d", "pool_2d_back":
		steps = float64(n.Params[1]) * float64(n.Params[2])
	}
	if a := n.Sources[0]; a != nil && steps > 16*float64(a.NumElements()+t.NumElements()) {
		return fmt.Errorf("the windows have %.0f elements each, most of them padding", steps)
	}
	return nil
}

func (b *builder) source(i int, id uint64) (*ggml.Tensor, error) {
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

// leaf builds a tensor that this stage does not compute, with type, layout and memory.
func (b *builder) leaf(at int) (*ggml.Tensor, error) {
	said := &b.m.Tensors[at]
	l, bytes, err := layoutOf(said)
	switch {
	case err != nil:
		return nil, err
	case bytes == 0:
		return nil, errors.New("it has no elements")
	}
	var t *ggml.Tensor
	if said.ViewSource == 0 {
		t = b.c.NewTensorOf(l)
	} else {
		root, err := b.root(said)
		if err != nil {
			return nil, err
		}
		t = b.c.AliasOf(root, l, int64(said.ViewOffset))
	}
	if err := b.c.Err(); err != nil {
		return nil, err
	}
	flag(t, said.Flags&(rpcwire.FlagInput|rpcwire.FlagOutput|rpcwire.FlagParam))
	if err := b.bind(t, said); err != nil {
		return nil, err
	}
	b.keep(at, t)
	return t, nil
}

// root returns or builds the source of a leaf's view.
func (b *builder) root(said *rpcwire.Tensor) (*ggml.Tensor, error) {
	at, known := b.index[said.ViewSource]
	if !known || said.ViewSource == said.ID || b.m.Tensors[at].ViewSource != 0 {
		return nil, errors.New("the source of its view does not exist")
	}
	if t := b.built[at]; t != nil {
		return t, nil
	}
	if b.place[at] >= b.next {
		return nil, errors.New("it is a view of a tensor that is computed later")
	}
	return b.leaf(at)
}

// flag sets the client's flags.
func flag(t *ggml.Tensor, flags int32) {
	for _, f := range []struct {
		flag int32
		set  func(*ggml.Tensor) *ggml.Tensor
	}{
		{rpcwire.FlagInput, (*ggml.Tensor).SetInput}, {rpcwire.FlagOutput, (*ggml.Tensor).SetOutput},
		{rpcwire.FlagParam, (*ggml.Tensor).SetParam}, {rpcwire.FlagLoss, (*ggml.Tensor).SetLoss},
	} {
		if flags&f.flag != 0 {
			f.set(t)
		}
	}
}

// compare requires that the built tensor matches the client's description.
func (b *builder) compare(t *ggml.Tensor, said *rpcwire.Tensor, n rebuild.Node) error {
	l, result, params := t.Layout(), n.Result, t.OpParams()
	switch {
	case uint32(t.OpCode()) != said.Op:
		return errors.New("another op")
	case l.Type != result.Type || l.Shape != result.Shape:
		return fmt.Errorf("its result is %v %v, not %v %v", l.Type, l.Shape, result.Type, result.Shape)
	case params != n.Params:
		return fmt.Errorf("its parameters are %v; with these operands and this result they must be %v", n.Params, params)
	}
	for i, nb := range l.Stride {
		if uint32(nb) != said.Nb[i] {
			return fmt.Errorf("its strides are %v, not %v", l.Stride, said.Nb)
		}
	}
	operands := t.Sources()
	for k, id := range said.Sources {
		if id == 0 {
			continue
		}
		want := n.Sources[k]
		if id == said.ID {
			want = t
		}
		if len(operands) == 0 || !operands[0].Is(want) {
			return fmt.Errorf("operand %d is not the one that the op uses", k)
		}
		operands = operands[1:]
	}
	root, isView := t.ViewSource()
	switch {
	case len(operands) > 0:
		return errors.New("it has fewer operands")
	case isView != (said.ViewSource != 0):
		return errors.New("the client is wrong about whether it is a view")
	case !isView:
		return nil
	}
	at, known := b.index[said.ViewSource]
	if !known || !root.Is(b.built[at]) || uint64(t.ViewOffset()) != said.ViewOffset {
		return errors.New("it is a view of another tensor")
	}
	return nil
}

// bind gives a tensor its memory in the client's buffer.
func (b *builder) bind(t *ggml.Tensor, said *rpcwire.Tensor) error {
	if said.Buffer == 0 { // ops that need its memory are refused
		if t.IsAllocated() {
			return errors.New("it has no buffer, but is a view of a tensor in this server's memory")
		}
		return nil
	}
	buf, offset, err := b.session.find(said)
	if err != nil {
		return err
	}
	b.buffers[buf] = true
	return buf.b.BindAt(t, offset)
}
