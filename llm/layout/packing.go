package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
)

// A Packing allocates persistent F32 tensors such as adapters. On a device they are adjacent views of a single tensor,
// so that one op can process all of them. On the CPU alone, where launching ops is cheap, each has its own memory. A
// Packing is used by one goroutine, together with its memory.
type Packing struct {
	memory *Memory
	c      *ggml.Context
	list   []packed
	access exclusive.Access
}

type packed struct {
	layer, device int
	kind          Kind
	shape         []int64
}

// NewPacking returns a packing for tensors of a context.
func (m *Memory) NewPacking(c *ggml.Context) *Packing { return &Packing{memory: m, c: c} }

// Add registers a tensor of a kind, or one that belongs to a weight of that kind, as [Memory.Add] does.
func (p *Packing) Add(layer int, kind Kind, shape ...int64) {
	if !p.access.Try("Packing.Add", "Packing") {
		return
	}
	defer p.access.Release()
	p.list = append(p.list, packed{layer: layer, kind: kind, shape: slices.Clone(shape)})
}

// packedAlignment is the alignment of packed tensors in bytes, at least what devices require.
const packedAlignment = 256

// Allocate creates the tensors in the order in which they were added, and allocates them like [Memory.Allocate].
func (p *Packing) Allocate() ([]*ggml.Tensor, error) {
	switch {
	case p == nil:
		return nil, errors.New("the packing is nil")
	case p.memory == nil && p.c == nil:
		return nil, fmt.Errorf("the packing is a zero value; NewPacking makes one: %w", ggml.ErrZeroValue)
	}
	if err := p.access.Acquire("Packing.Allocate", "Packing"); err != nil {
		return nil, err
	}
	defer p.access.Release()
	m := p.memory
	if err := m.check(); err != nil {
		return nil, err
	}
	tensors := make([]*ggml.Tensor, len(p.list))
	if m.places.Layout.IsCPU() {
		for i, x := range p.list {
			tensors[i] = p.c.NewTensor(ggml.F32, x.shape...)
			m.Add(x.layer, x.kind, tensors[i])
		}
		return tensors, m.Allocate()
	}
	size, offsets := make([]int64, len(m.places.Devices)), make([]int64, len(p.list))
	for i := range p.list {
		x := &p.list[i]
		var err error
		if x.device, err = m.places.Index(x.layer, x.kind); err != nil {
			return nil, err
		}
		offsets[i] = size[x.device]
		n := ggml.F32.RowSize(1)
		for _, d := range x.shape {
			n *= d
		}
		size[x.device] += (n + packedAlignment - 1) / packedAlignment * packedAlignment
	}
	whole := make([]*ggml.Tensor, len(size))
	for i, x := range p.list {
		if whole[x.device] == nil {
			whole[x.device] = p.c.NewTensor(ggml.F32, size[x.device]/ggml.F32.RowSize(1))
			m.Add(p.list[i].layer, p.list[i].kind, whole[x.device])
		}
	}
	if err := m.Allocate(); err != nil {
		return nil, err
	}
	for i, x := range p.list {
		tensors[i] = p.c.View(whole[x.device], x.shape, nil, offsets[i])
	}
	return tensors, p.c.Err()
}
