package rpc

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rebuild"
	"github.com/goggml/ggml/internal/rpcwire"
)

// maxBuffer limits the size of buffers, and so of tensors.
const maxBuffer = 1 << 40

func emptyShape(ne [ggml.MaxDims]uint32) bool { return slices.Contains(ne[:], 0) }

var errSize = errors.New("it is too large")

// layoutOf returns the layout of a tensor and the bytes from its first element to its last, which
// must not overlap; 0 bytes if the tensor has no elements.
func layoutOf(t *rpcwire.Tensor) (l ggml.Layout, bytes int64, err error) {
	l.Type = ggml.Type(t.Type)
	if !l.Type.IsValid() {
		return l, 0, fmt.Errorf("there is no type %d", t.Type)
	}
	block, size := l.Type.BlockSize(), l.Type.BlockBytes()
	canonical, elements := size, uint64(1)
	for i, n := range t.Ne {
		l.Shape[i], l.Stride[i] = int64(n), int64(t.Nb[i])
		if uint32(canonical) == t.Nb[i] { // the protocol has only its low 32 bits
			l.Stride[i] = canonical
		}
		over, product := bits.Mul64(elements, uint64(n))
		if elements = product; over != 0 || elements > maxBuffer*8 {
			return l, 0, errSize
		}
		rows := l.Shape[i]
		if i == 0 {
			rows = (rows + block - 1) / block
		}
		canonical *= rows
	}
	if elements == 0 {
		return l, 0, nil
	}
	if bytes, err = l.NumBytes(); err != nil {
		return l, 0, err
	}
	if bytes > maxBuffer {
		return l, 0, errSize
	}
	if packed := elements / uint64(block) * uint64(size); packed > uint64(bytes) && t.ViewSource == 0 {
		return l, 0, errors.New("its elements share memory")
	}
	return l, bytes, nil
}

// allocSize returns the bytes of the first tensor of m, whose operands are the other tensors.
func (s *session) allocSize(d *lentDevice, m *rpcwire.Graph) (int64, error) {
	for i := range m.Tensors {
		m.Tensors[i].Buffer, m.Tensors[i].ViewSource = 0, 0 // only layouts matter
	}
	b := s.newBuilder(m)
	defer b.c.Close()
	said := &m.Tensors[0]
	if emptyShape(said.Ne) {
		return 0, nil
	}
	t, err := b.leaf(0)
	if err != nil {
		return 0, err
	}
	switch opName(said) {
	case "flash_attn_ext", "mul_mat_id": // these take more memory on some devices
		n, err := b.describe(0, said)
		if err != nil {
			return 0, err
		}
		t = rebuild.Build(b.c, n)
		if err := b.c.Err(); err != nil {
			return 0, err
		}
	}
	return d.BufferType().AllocSize(t)
}
