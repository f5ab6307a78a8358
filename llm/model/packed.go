package model

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// The packed matrices of a model are there a second time, in memory and layouts
// in which the processor multiplies fastest. The mapped ones take no memory until
// something else uses them.
type packed struct {
	contexts []*ggml.Context
	buffers  []*ggml.Buffers
	joints   map[string]*joint // by the name of each part
}

// A joint is a matrix [n_in, Σ n_out]: those of the file, one after the other,
// that multiply the same input, so that it is read and rounded once.
type joint struct {
	w     *ggml.Tensor
	parts []string
	plain bool // as in the file, in larger pages
}

// joint is that of just these matrices, nil when there is none.
func (p *packed) joint(names ...string) *joint {
	if p == nil || p.joints[names[0]] == nil || !slices.Equal(p.joints[names[0]].parts, names) {
		return nil
	}
	return p.joints[names[0]]
}

// of returns the joint that the tensor is, nil for others.
func (p *packed) of(w *ggml.Tensor) *joint {
	if p == nil || p.joints[w.Name()] == nil || p.joints[w.Name()].w != w {
		return nil
	}
	return p.joints[w.Name()]
}

// packs tells whether a layout of the processor's suits a matrix, for so many
// sequences at once.
func packs(bt *ggml.BufferType, w *ggml.Tensor, sequences int) bool {
	return max(1, sequences) > plainTo(w.Type()) && bt.SupportsMulMat(w)
}

// plainTo is the number of sequences up to which a matrix is best as it is in the
// file. Where tiles are fast, prompts are multiplied faster so than packed, and single
// tokens are read at least as fast; for a few tokens at once it depends on the type.
func plainTo(t ggml.Type) int {
	const large, all = 256, math.MaxInt
	switch bf16 := kernels.FastestType() == ggml.BF16; {
	case !fastTiles():
		return 0
	case !t.IsQuantized():
		return all
	case bf16 && t.BlockSize() == large:
		return all // three or four tokens take up to a quarter longer
	case bf16 && kernels.GEMVBatched(t):
		return 4 // five to sixteen take up to half as long again
	case bf16:
		return 0
	case kernels.GEMVBatched(t):
		return all
	}
	return 2 // three to sixteen take up to twice as long
}

// repack reads each matrix of the file into the first of the processor's layouts
// that suits it, and else as it is into memory with large pages.
func (m *Model) repack(o LoadOptions) error {
	if o.Device.Type() != ggml.CPU {
		return nil
	}
	m.packed = &packed{joints: map[string]*joint{}}
	var data []byte
	for _, bt := range append(o.Device.ExtraBufferTypes(), o.Device.BufferType()) {
		c := ggml.NewContext()
		m.packed.contexts = append(m.packed.contexts, c)
		var joints []*joint
		for _, names := range m.groups() {
			for _, parts := range m.joinable(names, bt, o.Sequences) {
				joints = append(joints, m.join(c, parts, bt.IsHost()))
			}
		}
		buffers, err := c.Allocate(bt)
		if err != nil {
			return err
		}
		m.packed.buffers = append(m.packed.buffers, buffers)
		buffers.SetUsage(ggml.UsageWeights)
		for _, j := range joints {
			if data, err = j.read(m.gguf, data[:0]); err != nil {
				return err
			}
			if _, err := j.w.WriteAt(data, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// joinable divides what a layout takes of the matrices of one input: those of
// queries, keys and values in one, if they have the same type, else each by itself.
// Of the feed-forward network's the results would lie so far apart that a prompt
// took 8 % longer.
func (m *Model) joinable(names []string, bt *ggml.BufferType, sequences int) [][]string {
	var taken [][]string
	together := strings.HasSuffix(names[0], ".attn_q.weight")
	for _, name := range names {
		w := m.weights[name]
		together = together && w.Type() == m.weights[names[0]].Type()
		if m.packed.joints[name] == nil && (bt.IsHost() || packs(bt, w, sequences)) {
			taken = append(taken, []string{name})
		}
	}
	if together && len(taken) == len(names) {
		return [][]string{names}
	}
	return taken
}

// join makes the joint of matrices, without values.
func (m *Model) join(c *ggml.Context, parts []string, plain bool) *joint {
	var rows int64
	for _, name := range parts {
		rows += m.weights[name].Dim(1)
	}
	first := m.weights[parts[0]]
	j := &joint{c.NewTensor(first.Type(), first.Dim(0), rows).SetName(parts[0]), parts, plain}
	for _, name := range parts {
		m.packed.joints[name] = j
	}
	return j
}

// read appends the parts' data to a slice, which grows at most once.
func (j *joint) read(g *ggml.GGUF, data []byte) ([]byte, error) {
	data = slices.Grow(data, int(j.w.NumBytes()))
	for _, name := range j.parts {
		r, err := g.TensorData(name)
		if err != nil {
			return nil, err
		}
		n := len(data)
		data = data[:n+int(r.Size())]
		if _, err := io.ReadFull(r, data[n:]); err != nil {
			return nil, fmt.Errorf("%s: tensor %s: %w", g.Name(), name, err)
		}
	}
	return data, nil
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
