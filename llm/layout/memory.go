package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
)

// A Memory holds persistent tensors, each on the device that a layout assigns. The caller closes it. It is used by one
// goroutine.
type Memory struct {
	// Resident selects the CPU tensors that Load reads into memory with large pages; Load maps the others. nil selects
	// none.
	Resident func(t ggml.GGUFTensor) bool

	places  Places
	waiting [][]*ggml.Tensor // tensors to allocate, by device
	sparse  bool             // they are caches; sequences use only a part
	buffers []*ggml.Buffers
	sizes   Sizes
	err     error // invalid layout
	access  exclusive.Access
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

// acquire reserves the memory for a call.
func (m *Memory) acquire(method string) error {
	if err := m.check(); err != nil {
		return err
	}
	return m.access.Acquire(method, "Memory")
}

// NewMemory returns an empty memory. Allocate and Load report an invalid layout.
func NewMemory(l Layout) *Memory {
	m := &Memory{}
	m.places, m.err = l.Places()
	m.waiting = make([][]*ggml.Tensor, len(m.places.Devices))
	m.sizes = make(Sizes, len(m.places.Devices))
	return m
}

// Add registers tensors for Allocate. They are weights of a kind, or belong to such a weight, as for [Layout.Of].
func (m *Memory) Add(layer int, kind Kind, tensors ...*ggml.Tensor) {
	if m.check() != nil || !m.access.Try("Memory.Add", "Memory") {
		return
	}
	defer m.access.Release()
	var i int
	if i, m.err = m.places.Index(layer, kind); m.err == nil {
		m.waiting[i] = append(m.waiting[i], tensors...)
		m.sparse = m.sparse || kind == KVCache
	}
}

// Allocate allocates the added tensors. Ops on a tensor run on its device.
func (m *Memory) Allocate() error {
	if err := m.acquire("Memory.Allocate"); err != nil {
		return err
	}
	defer m.access.Release()
	for i, tensors := range m.waiting {
		m.waiting[i] = nil
		b, err := m.places.Devices[i].BufferType().Allocate(tensors...)
		if err != nil {
			return err
		}
		b.SetUsage(ggml.UsageWeights)
		if m.sparse {
			b.SetSparse()
		}
		m.own(i, b, b.Size())
	}
	return nil
}

func (m *Memory) own(i int, b *ggml.Buffers, size int64) {
	m.buffers = append(m.buffers, b)
	m.sizes[i] += size
}

// Load creates the tensors of a file in a context and loads their data. As in [ggml.GGUF.Load], CPU tensors are mapped
// unless NoMmap is set or Resident selects them. place returns a tensor's layer and kind by its name.
func (m *Memory) Load(g *ggml.GGUF, c *ggml.Context, o ggml.LoadOptions, place func(name string) (layer int, kind Kind)) error {
	if err := m.acquire("Memory.Load"); err != nil {
		return err
	}
	defer m.access.Release()
	if place == nil {
		return errors.New("the function that returns the places of tensors is nil")
	}
	cpu := len(m.sizes) - 1
	parts, sizes, total := map[string]loadPart{}, map[loadPart]int64{}, int64(0)
	for t := range g.Tensors() {
		i, err := m.places.Index(place(t.Name))
		if err != nil {
			return err
		}
		part := loadPart{i, i == cpu && m.Resident != nil && m.Resident(t)}
		parts[t.Name] = part
		sizes[part] += t.Size
		total += t.Size
	}
	loaded := int64(0)
	for i, d := range m.places.Devices {
		for _, part := range []loadPart{{i, false}, {i, true}} {
			of := o
			of.NoMmap = o.NoMmap || part.resident
			of.Filter = func(t ggml.GGUFTensor) bool { return parts[t.Name] == part }
			if o.Progress != nil {
				of.Progress = func(done, _ int64) { o.Progress(loaded+done, total) }
			}
			b, err := g.Load(c, d, of)
			if err != nil {
				return err
			}
			size := b.Size()
			if i == cpu { // its mapping includes what lies in between
				size = sizes[part]
			}
			m.own(i, b, size)
			loaded += sizes[part]
		}
	}
	return nil
}

// A loadPart is a set of tensors loaded in one call.
type loadPart struct {
	device   int
	resident bool
}

// Layout returns the layout of the tensors.
func (m *Memory) Layout() Layout {
	if m == nil {
		return Layout{}
	}
	return m.places.Layout
}

// Sizes returns the sizes of the tensors per device.
func (m *Memory) Sizes() Sizes {
	if m == nil {
		return nil
	}
	return slices.Clone(m.sizes)
}

// Clear sets every byte to value.
func (m *Memory) Clear(value byte) error {
	if err := m.acquire("Memory.Clear"); err != nil {
		return err
	}
	defer m.access.Release()
	for _, b := range m.buffers {
		if err := b.Clear(value); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the memory. It fails only while another call uses it.
func (m *Memory) Close() error {
	if m == nil {
		return nil
	}
	if err := m.access.Acquire("Memory.Close", "Memory"); err != nil {
		return err
	}
	defer m.access.Release()
	for _, b := range m.buffers {
		b.Close()
	}
	return nil
}
