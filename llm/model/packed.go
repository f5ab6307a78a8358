package model

import (
	"strings"

	"github.com/goggml/ggml"
)

// The packed matrices of a model are there a second time, in the layouts in
// which the processor multiplies fastest. Nothing else can be done with them;
// the mapped ones take no memory until something else uses them.
type packed struct {
	contexts []*ggml.Context
	buffers  []*ggml.Buffers
	weights  map[string]*ggml.Tensor
}

// matrix is nil when the matrix is not packed.
func (p *packed) matrix(name string) *ggml.Tensor {
	if p == nil {
		return nil
	}
	return p.weights[name]
}

// has tells whether w is a packed matrix.
func (p *packed) has(w *ggml.Tensor) bool { return p.matrix(w.Name()) == w }

// repack reads each matrix of the file into the first of the device's layouts
// that takes it.
func (m *Model) repack(d *ggml.Device) error {
	m.packed = &packed{weights: map[string]*ggml.Tensor{}}
	taken := map[string]bool{}
	for _, bt := range d.ExtraBufferTypes() {
		list := map[string]bool{}
		for name, w := range m.weights {
			if !taken[name] && m.multiplies(name) && bt.Multiplies(w) {
				list[name], taken[name] = true, true
			}
		}
		if err := m.packed.load(m.gguf, d, bt, list); err != nil {
			return err
		}
	}
	return nil
}

// multiplies tells whether a tensor is the matrix of a product.
func (m *Model) multiplies(name string) bool {
	if name == m.outputName() {
		return true
	}
	for _, linear := range Linears {
		if strings.HasPrefix(name, "blk.") && strings.HasSuffix(name, "."+linear+".weight") {
			return true
		}
	}
	return false
}

func (p *packed) load(g *ggml.GGUF, d *ggml.Device, bt *ggml.BufferType, list map[string]bool) error {
	c := ggml.NewContext()
	p.contexts = append(p.contexts, c)
	buffers, err := g.Load(c, d, ggml.LoadOptions{BufferType: bt, Filter: func(t ggml.GGUFTensor) bool { return list[t.Name] }})
	if err != nil {
		return err
	}
	p.buffers = append(p.buffers, buffers)
	for t := range c.Tensors() {
		p.weights[t.Name()] = t
	}
	return nil
}

func (p *packed) close() {
	if p == nil {
		return
	}
	for _, b := range p.buffers {
		b.Close()
	}
	for _, c := range p.contexts {
		c.Close()
	}
}
