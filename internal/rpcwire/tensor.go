package rpcwire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// TensorSize is the size in bytes of a tensor's description.
const TensorSize = 296

const (
	maxDims    = 4
	maxSources = 10
	// ParamWords is the number of words of an op's parameters.
	ParamWords = 16
)

// The flags of a tensor, as in ggml.
const (
	FlagInput int32 = 1 << iota
	FlagOutput
	FlagParam
	FlagLoss
	FlagCompute // it is computed, and not in an unselected branch
)

// A Tensor describes a tensor. Clients identify tensors by numbers, servers by addresses.
type Tensor struct {
	ID         uint64
	Type       uint32
	Buffer     uint64 // number returned by AllocBuffer; 0 for memory outside the server
	Ne, Nb     [maxDims]uint32
	Op         uint32
	Params     [ParamWords]int32
	Flags      int32
	Sources    [maxSources]uint64
	ViewSource uint64
	ViewOffset uint64
	Data       uint64
	Name       [64]byte
	Uses       int32 // uses of its result in the client's whole graph
}

// Decode decodes a description of TensorSize bytes.
func (t *Tensor) Decode(p []byte) {
	_ = p[TensorSize-1]
	next := func(n int) []byte {
		q := p[:n]
		p = p[n:]
		return q
	}
	u32 := func() uint32 { return binary.LittleEndian.Uint32(next(4)) }
	u64 := func() uint64 { return binary.LittleEndian.Uint64(next(8)) }
	t.ID, t.Type, t.Buffer = u64(), u32(), u64()
	for i := range t.Ne {
		t.Ne[i] = u32()
	}
	for i := range t.Nb {
		t.Nb[i] = u32()
	}
	t.Op = u32()
	for i := range t.Params {
		t.Params[i] = int32(u32())
	}
	t.Flags = int32(u32())
	for i := range t.Sources {
		t.Sources[i] = u64()
	}
	t.ViewSource, t.ViewOffset, t.Data = u64(), u64(), u64()
	copy(t.Name[:], next(64))
	t.Uses = int32(u32())
}

// Append appends the description to a message.
func (t Tensor) Append(p []byte) []byte {
	u32 := func(n uint32) { p = binary.LittleEndian.AppendUint32(p, n) }
	u64 := func(n uint64) { p = binary.LittleEndian.AppendUint64(p, n) }
	u64(t.ID)
	u32(t.Type)
	u64(t.Buffer)
	for _, n := range t.Ne {
		u32(n)
	}
	for _, n := range t.Nb {
		u32(n)
	}
	u32(t.Op)
	for _, n := range t.Params {
		u32(uint32(n))
	}
	u32(uint32(t.Flags))
	for _, n := range t.Sources {
		u64(n)
	}
	u64(t.ViewSource)
	u64(t.ViewOffset)
	u64(t.Data)
	p = append(p, t.Name[:]...)
	u32(uint32(t.Uses))
	return p
}

// A Graph contains the nodes of GraphCompute in order, and all tensors that they depend on.
type Graph struct {
	Device  uint32
	UID     uint64 // name for GraphRecompute; 0 means none
	Nodes   []uint64
	Tensors []Tensor
}

var errGraphSize = errors.New("a graph with fewer bytes than its nodes and tensors have")

// DecodeGraph decodes the message of GraphCompute.
func DecodeGraph(p []byte) (*Graph, error) {
	return ReadGraph(len(p), func(part []byte) error {
		p = p[copy(part, p):]
		return nil
	})
}

// ReadGraph reads the message of GraphCompute, of size bytes, part by part through read.
func ReadGraph(size int, read func(part []byte) error) (*Graph, error) {
	if size < GraphSize {
		return nil, errGraphSize
	}
	var head [16]byte
	if err := read(head[:]); err != nil {
		return nil, err
	}
	g := &Graph{Device: binary.LittleEndian.Uint32(head[:]), UID: binary.LittleEndian.Uint64(head[4:])}
	nodes := int64(binary.LittleEndian.Uint32(head[12:]))
	rest := int64(size) - GraphSize - 8*nodes // bytes of tensors
	if rest < 0 || rest%TensorSize != 0 {
		return nil, errGraphSize
	}
	tensors := rest / TensorSize
	if nodes > MaxGraphTensors || tensors > MaxGraphTensors {
		return nil, fmt.Errorf("a graph of %d nodes and %d tensors; the limit is %d", nodes, tensors, MaxGraphTensors)
	}
	g.Nodes, g.Tensors = make([]uint64, nodes), make([]Tensor, tensors)
	err := readEach(read, 8, nodes, func(i int64, p []byte) { g.Nodes[i] = binary.LittleEndian.Uint64(p) })
	if err != nil {
		return nil, err
	}
	if err := read(head[:4]); err != nil {
		return nil, err
	}
	if int64(binary.LittleEndian.Uint32(head[:])) != tensors {
		return nil, errGraphSize
	}
	err = readEach(read, TensorSize, tensors, func(i int64, p []byte) { g.Tensors[i].Decode(p) })
	if err != nil {
		return nil, err
	}
	return g, nil
}

// readEach reads n parts of size bytes, about a hundred at a time.
func readEach(read func([]byte) error, size, n int64, part func(i int64, p []byte)) error {
	room := make([]byte, min(n, 128)*size)
	for i := int64(0); i < n; {
		p := room[:min(n-i, 128)*size]
		if err := read(p); err != nil {
			return err
		}
		for ; len(p) > 0; p = p[size:] {
			part(i, p)
			i++
		}
	}
	return nil
}

// Append appends the message of GraphCompute.
func (g *Graph) Append(p []byte) []byte {
	p = binary.LittleEndian.AppendUint32(p, g.Device)
	p = binary.LittleEndian.AppendUint64(p, g.UID)
	p = binary.LittleEndian.AppendUint32(p, uint32(len(g.Nodes)))
	for _, id := range g.Nodes {
		p = binary.LittleEndian.AppendUint64(p, id)
	}
	p = binary.LittleEndian.AppendUint32(p, uint32(len(g.Tensors)))
	for i := range g.Tensors {
		p = g.Tensors[i].Append(p)
	}
	return p
}
