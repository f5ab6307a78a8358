package rpc

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
)

// A mutator modifies messages of a session.
type mutator struct {
	*rand.Rand
	all []message // source of parts
}

// message returns a modified message of the session.
func (r mutator) message(s session) message {
	if graphs := s.graphs(); r.IntN(2) == 0 {
		return r.gently(graphs[r.IntN(len(graphs))])
	}
	m := s[r.IntN(len(s))]
	m.body = slices.Clone(m.body)
	if g, err := rpcwire.DecodeGraph(m.body); m.command == rpcwire.GraphCompute && err == nil && r.IntN(8) > 0 {
		for range 1 + r.IntN(3) {
			r.graph(g)
		}
		m.body = g.Append(nil)
		return m
	}
	for range 1 + r.IntN(3) {
		m = r.bytes(m)
	}
	return m
}

// fill fills buffers with bytes that are extreme numbers, as row numbers, labels and bounds too; half of the time.
func (r mutator) fill(conn net.Conn, buffers []uint64) {
	for _, number := range buffers {
		if r.IntN(2) == 0 {
			value := []byte{1, 0x7f, 0x80, 0xff, byte(r.IntN(256))}[r.IntN(5)]
			conn.Write(message{rpcwire.BufferClear, append(binary.LittleEndian.AppendUint64(nil, number), value)}.bytes())
		}
	}
}

// gently modifies a graph that may stay valid: most other changes are refused by a check.
func (r mutator) gently(m message) message {
	g, err := rpcwire.DecodeGraph(m.body)
	if err != nil || len(g.Tensors) == 0 {
		return m
	}
	t := &g.Tensors[r.IntN(len(g.Tensors))]
	switch r.IntN(4) {
	case 0: // other data
		t.Data += 32 * (r.Uint64N(16) - 8)
	case 1:
		at := r.IntN(5)
		if t.Op == opNamed("custom") { // the parameters of a native op follow ggml's
			at += ggml.NativeParamsOffset / 4
		}
		t.Params[at] ^= 1 << r.IntN(32)
	default:
		r.resize(g)
	}
	m.body = g.Append(nil)
	return m
}

// resize replaces a size by another one throughout a graph. Contiguous tensors stay contiguous.
func (r mutator) resize(g *rpcwire.Graph) {
	old := g.Tensors[r.IntN(len(g.Tensors))].Ne[r.IntN(4)]
	size := 1 + r.Uint32N(2*old)
	for i := range g.Tensors {
		t := &g.Tensors[i]
		isDense := t.Nb == strides(t)
		for j, n := range t.Ne {
			if n == old {
				t.Ne[j] = size
			}
		}
		if isDense {
			t.Nb = strides(t)
		}
	}
}

// strides returns the contiguous strides of a tensor.
func strides(t *rpcwire.Tensor) (nb [4]uint32) {
	of := ggml.Type(t.Type)
	nb[0] = uint32(of.BlockBytes())
	nb[1] = t.Ne[0] / uint32(of.BlockSize()) * nb[0]
	nb[2], nb[3] = t.Ne[1]*nb[1], t.Ne[2]*t.Ne[1]*nb[1]
	return nb
}

// bytes modifies bytes without regard to their meaning.
func (r mutator) bytes(m message) message {
	p := m.body
	switch r.IntN(8) {
	case 0:
		m.command = rpcwire.Command(r.IntN(26))
	case 1:
		m.body = p[:r.IntN(len(p)+1)]
	case 2:
		m.body = append(p, make([]byte, 1+r.IntN(400))...)
	case 3:
		if other := r.all[r.IntN(len(r.all))].body; len(p) > 0 && len(other) > 0 {
			from := other[r.IntN(len(other)):]
			copy(p[r.IntN(len(p)):], from[:min(len(from), 1+r.IntN(64))])
		}
	case 4:
		if len(p) > 0 {
			p[r.IntN(len(p))] ^= 1 << r.IntN(8)
		}
	case 5, 6:
		if len(p) >= 4 {
			at := r.IntN(len(p)/4) * 4
			binary.LittleEndian.PutUint32(p[at:], r.u32(binary.LittleEndian.Uint32(p[at:])))
		}
	default:
		if len(p) >= 8 {
			at := r.IntN((len(p)-4)/4) * 4
			binary.LittleEndian.PutUint64(p[at:], r.u64(binary.LittleEndian.Uint64(p[at:])))
		}
	}
	return m
}

var edges = []uint64{0, 1, 2, 3, 4, 16, 31, 32, 33, 255, 256, 4096, math.MaxInt32, 1 << 31, math.MaxUint32, 1 << 32, 1 << 40, 3 << 40, math.MaxInt64, 1 << 63, math.MaxUint64}

func (r mutator) u64(old uint64) uint64 {
	switch r.IntN(6) {
	case 0:
		return edges[r.IntN(len(edges))]
	case 1:
		return old + 1
	case 2:
		return old - 1
	case 3:
		return old * 2
	case 4:
		return old + 32*uint64(r.IntN(64)) - 1024
	}
	return old ^ 1<<r.IntN(64)
}

func (r mutator) u32(old uint32) uint32 { return uint32(r.u64(uint64(old))) }

// graph modifies a field of a tensor, or the order of nodes.
func (r mutator) graph(g *rpcwire.Graph) {
	if len(g.Tensors) == 0 || len(g.Nodes) == 0 {
		return
	}
	t := &g.Tensors[r.IntN(len(g.Tensors))]
	if i := slices.IndexFunc(g.Tensors, func(t rpcwire.Tensor) bool { return t.ID == g.Nodes[r.IntN(len(g.Nodes))] }); i >= 0 && r.IntN(2) == 0 {
		t = &g.Tensors[i]
	}
	other := &g.Tensors[r.IntN(len(g.Tensors))]
	id := []uint64{0, t.ID, other.ID, other.ID, other.ID, r.Uint64()}[r.IntN(6)]
	switch r.IntN(16) {
	case 0:
		t.Op = uint32(r.IntN(104))
	case 1:
		t.Type = uint32(r.IntN(44))
	case 2, 3:
		i := r.IntN(4)
		t.Ne[i] = r.u32(t.Ne[i])
	case 4, 5:
		i := r.IntN(4)
		t.Nb[i] = r.u32(t.Nb[i])
	case 6, 7:
		i := r.IntN(rpcwire.ParamWords)
		if r.IntN(2) == 0 {
			i = r.IntN(5)
		}
		t.Params[i] = int32(r.u32(uint32(t.Params[i])))
	case 8:
		t.Sources[r.IntN(4)] = id
	case 9:
		t.ViewSource = id
	case 10:
		t.ViewOffset = r.u64(t.ViewOffset)
	case 11:
		t.Data = []uint64{r.u64(t.Data), other.Data}[r.IntN(2)]
	case 12:
		t.Buffer = []uint64{r.u64(t.Buffer), other.Buffer, 0}[r.IntN(3)]
	case 13:
		t.Flags = int32(r.u32(uint32(t.Flags)))
		t.Uses = int32(r.IntN(4))
	case 14:
		i, j := r.IntN(len(g.Nodes)), r.IntN(len(g.Nodes))
		g.Nodes[i], g.Nodes[j] = g.Nodes[j], g.Nodes[i]
	default: // the layout and place of another tensor
		t.Ne, t.Nb, t.Data, t.Buffer = other.Ne, other.Nb, other.Data, other.Buffer
	}
}
