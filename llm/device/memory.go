package device

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
)

// A Memory holds tensors that stay, each on the device where a layout puts it. Close it after
// use. It is used by one goroutine.
type Memory struct {
	places  places
	waiting [][]*ggml.Tensor // for Allocate, by device
	buffers []*ggml.Buffers
	sizes   Sizes
	err     error // of a layout that is wrong
}

func (m *Memory) check() error {
	switch {
	case m == nil:
		return errors.New("the memory is nil")
	case m.err == nil && len(m.waiting) == 0:
		return fmt.Errorf("the memory is a zero value; NewMemory makes one: %w", ggml.ErrZeroValue)
	}
	return m.err
}

// NewMemory takes no memory yet. What is wrong with the layout is an error of Allocate and of
// Load.
func NewMemory(l Layout) *Memory {
	m := &Memory{}
	m.places, m.err = l.places()
	m.waiting = make([][]*ggml.Tensor, len(m.places.devices))
	m.sizes = make(Sizes, len(m.places.devices))
	return m
}

// Add lists tensors that Allocate gives memory: of a kind, or belonging to it, as [Layout.Of]
// has it.
func (m *Memory) Add(layer int, kind string, tensors ...*ggml.Tensor) {
	if m.check() != nil {
		return
	}
	var i int
	if i, m.err = m.places.index(layer, kind); m.err == nil {
		m.waiting[i] = append(m.waiting[i], tensors...)
	}
}

// Allocate gives memory to the tensors that have been added. Ops on them run where they lie.
func (m *Memory) Allocate() error {
	if err := m.check(); err != nil {
		return err
	}
	for i, tensors := range m.waiting {
		m.waiting[i] = nil
		b, err := m.places.devices[i].BufferType().Allocate(tensors...)
		if err != nil {
			return err
		}
		b.SetUsage(ggml.UsageWeights)
		m.own(i, b, b.Size())
	}
	return nil
}

func (m *Memory) own(i int, b *ggml.Buffers, size int64) {
	m.buffers = append(m.buffers, b)
	m.sizes[i] += size
}

// Load makes the tensors of a file in a context, and gives them their data: those of the CPU
// are mapped, unless NoMmap is set, as by [ggml.GGUF.Load]. The place of a tensor is told by
// its name.
func (m *Memory) Load(g *ggml.GGUF, c *ggml.Context, o ggml.LoadOptions, place func(name string) (layer int, kind string)) error {
	if err := m.check(); err != nil {
		return err
	}
	if place == nil {
		return errors.New("the function that tells the places of tensors is nil")
	}
	device, sizes := map[string]int{}, make(Sizes, len(m.sizes))
	for t := range g.Tensors() {
		i, err := m.places.index(place(t.Name))
		if err != nil {
			return err
		}
		device[t.Name] = i
		sizes[i] += t.Size
	}
	loaded, progress := int64(0), o.Progress
	for i, d := range m.places.devices {
		o.Filter = func(t ggml.GGUFTensor) bool { return device[t.Name] == i }
		if progress != nil {
			o.Progress = func(done, _ int64) { progress(loaded+done, sizes.Total()) }
		}
		b, err := g.Load(c, d, o)
		if err != nil {
			return err
		}
		size := b.Size()
		if i == len(m.sizes)-1 { // of the CPU, whose mapping has what lies in between, too
			size = sizes[i]
		}
		m.own(i, b, size)
		loaded += sizes[i]
	}
	return nil
}

// Layout is where the tensors lie.
func (m *Memory) Layout() Layout {
	if m == nil {
		return Layout{}
	}
	return m.places.Layout
}

// Sizes are those of the tensors.
func (m *Memory) Sizes() Sizes {
	if m == nil {
		return nil
	}
	return slices.Clone(m.sizes)
}

// Clear sets each byte.
func (m *Memory) Clear(value byte) error {
	if err := m.check(); err != nil {
		return err
	}
	for _, b := range m.buffers {
		if err := b.Clear(value); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the memory. It never fails.
func (m *Memory) Close() error {
	if m != nil {
		for _, b := range m.buffers {
			b.Close()
		}
	}
	return nil
}
