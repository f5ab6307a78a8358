package model

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/arch"
)

// The repacked matrices of a model are there a second time, in memory and layouts
// in which the processor multiplies fastest. The mapped ones take no memory until
// something else uses them.
type repacked struct {
	contexts []*ggml.Context
	buffers  []*ggml.Buffers
	fused    map[string]*Fused // by the name of each part
}

// A Fused matrix is a copy of matrices that multiply the same input, one after the
// other, so that it is read and rounded once.
type Fused struct {
	W        *ggml.Tensor // [n_in, Σ n_out]
	RowMajor bool         // as in the file, in larger pages
	parts    []string
}

// Fused is the copy of just these matrices, nil when there is none.
func (m *Model) Fused(names ...string) *Fused {
	if m.repacked == nil || len(names) == 0 {
		return nil
	}
	f := m.repacked.fused[names[0]]
	if f == nil || !slices.Equal(f.parts, names) {
		return nil
	}
	return f
}

// packs reports whether a layout of the processor's suits a matrix, for so many
// sequences at once.
func packs(bt *ggml.BufferType, w *ggml.Tensor, sequences int) bool {
	return max(1, sequences) > rowMajorTo(w.Type()) && bt.SupportsMulMat(w)
}

// GEMMIsFast reports whether many tokens are multiplied faster by the GEMM of kernels
// than by the device's products of 8 bits: in BF16, and in F32 by vectors of 512 bits.
var GEMMIsFast = sync.OnceValue(func() bool {
	cpu, err := ggml.ReadCPUInfo()
	library, _ := kernels.GEMMLibrary()
	return kernels.FastestType() == ggml.BF16 || library != "" && err == nil && cpu.AVX512
})

// rowMajorTo is the number of sequences up to which a matrix is best as it is in the
// file. Where the GEMM is fast, prefill is faster so than repacked, and single
// tokens are read at least as fast; for a few tokens at once it depends on the type.
func rowMajorTo(t ggml.Type) int {
	const large, all = 256, math.MaxInt
	switch bf16 := kernels.FastestType() == ggml.BF16; {
	case !GEMMIsFast():
		return 0
	case !t.IsQuantized():
		return all
	case bf16 && t.BlockSize() == large:
		return all // three or four tokens take up to a quarter longer
	case bf16 && kernels.HasBatchedGEMV(t):
		return 4 // five to sixteen take up to half as long again
	case bf16:
		return 0
	case kernels.HasBatchedGEMV(t):
		return all
	}
	return 2 // three to sixteen take up to twice as long
}

// repack reads each matrix of the file into the first of the processor's layouts
// that suits it, and else as it is into memory with large pages.
func (m *Model) repack(o LoadOptions) error {
	if !o.Layout.IsCPU() {
		return nil
	}
	cpu, err := ggml.DeviceByType(ggml.CPU)
	if err != nil {
		return err
	}
	m.repacked = &repacked{fused: map[string]*Fused{}}
	var data []byte
	for _, bt := range append(cpu.ExtraBufferTypes(), cpu.BufferType()) {
		c := ggml.NewContext()
		m.repacked.contexts = append(m.repacked.contexts, c)
		var copies []*Fused
		for _, group := range m.arch.Groups() {
			for _, parts := range m.fusable(group, bt, o.Sequences) {
				copies = append(copies, m.fuse(c, parts, bt.IsHost()))
			}
		}
		buffers, err := c.Allocate(bt)
		if err != nil {
			return err
		}
		m.repacked.buffers = append(m.repacked.buffers, buffers)
		buffers.SetUsage(ggml.UsageWeights)
		for _, f := range copies {
			if data, err = f.read(m.gguf, data[:0]); err != nil {
				return err
			}
			if _, err := f.W.WriteAt(data, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// fusable divides what a layout takes of the matrices of one input: those of
// queries, keys and values in one, if they have the same type, else each by itself.
// Of the feed-forward network's the results would lie so far apart that a prompt
// took 8 % longer.
func (m *Model) fusable(group []*arch.Weight, bt *ggml.BufferType, sequences int) [][]string {
	var taken [][]string
	var names []string
	together := group[0].Kind == "attn_q"
	for _, declared := range group {
		w := m.weights[declared.Name]
		together = together && w.Type() == m.weights[group[0].Name].Type()
		names = append(names, declared.Name)
		if m.repacked.fused[declared.Name] == nil && (bt.IsHost() || packs(bt, w, sequences)) {
			taken = append(taken, []string{declared.Name})
		}
	}
	if together && len(taken) == len(group) {
		return [][]string{names}
	}
	return taken
}

// fuse makes the copy of matrices, without values.
func (m *Model) fuse(c *ggml.Context, parts []string, rowMajor bool) *Fused {
	var rows int64
	for _, name := range parts {
		rows += m.weights[name].Dim(1)
	}
	first := m.weights[parts[0]]
	f := &Fused{c.NewTensor(first.Type(), first.Dim(0), rows).SetName(parts[0]), rowMajor, parts}
	for _, name := range parts {
		m.repacked.fused[name] = f
	}
	return f
}

// read appends the parts' data to a slice, which grows at most once.
func (f *Fused) read(g *ggml.GGUF, data []byte) ([]byte, error) {
	data = slices.Grow(data, int(f.W.NumBytes()))
	for _, name := range f.parts {
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

func (r *repacked) close() {
	if r == nil {
		return
	}
	for _, b := range r.buffers {
		b.Close()
	}
	for _, c := range r.contexts {
		c.Close()
	}
}
