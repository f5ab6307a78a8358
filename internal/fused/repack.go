package fused

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/kernels"
)

// Repacked matrices are second copies of matrices, in memory and layouts that the processor
// multiplies fastest. The mapped originals take no memory until something else uses them.
type Repacked struct {
	contexts []*ggml.Context
	buffers  []*ggml.Buffers
	matrices map[string]*repackedMatrix // by the name of each part
}

// A repackedMatrix is a copy of concatenated matrices with the same input, so that the input is
// read and rounded once.
type repackedMatrix struct {
	w        *ggml.Tensor // [n_in, Σ n_out]
	rowMajor bool         // the layout of the file, in larger pages
	parts    []nn.Matrix
}

// of returns the copy of exactly these matrices, or nil.
func (p *Repacked) of(matrices []nn.Matrix) *repackedMatrix {
	if p == nil {
		return nil
	}
	m := p.matrices[matrices[0].Name]
	same := func(part, matrix nn.Matrix) bool { return part.Name == matrix.Name }
	if m == nil || !slices.EqualFunc(m.parts, matrices, same) {
		return nil
	}
	return m
}

// packs reports whether a repacking layout of the processor suits a matrix, for a number of
// sequences at once.
func packs(bt *ggml.BufferType, w *ggml.Tensor, sequences int) bool {
	return max(1, sequences) > rowMajorTo(w.Type()) && bt.SupportsMulMat(w)
}

// gemmIsFast reports whether the kernels' GEMM multiplies many tokens faster than the device's
// 8-bit products: in BF16, in 16-bit integers, and in F32 with 512-bit vectors.
var gemmIsFast = sync.OnceValue(func() bool {
	cpu, err := ggml.ReadCPUInfo()
	library, _ := kernels.GEMMLibrary()
	fastest := nn.FastestType()
	return library != "" && (fastest == ggml.BF16 || fastest == ggml.I16 || err == nil && cpu.AVX512)
})

// rowMajorTo returns the number of sequences up to which a matrix is best row-major, as in the
// file. If GEMM is fast, prefill is faster row-major than repacked, and single tokens are at least
// as fast; for a few tokens at once it depends on the type.
func rowMajorTo(t ggml.Type) int {
	const large, all = 256, math.MaxInt
	switch bf16 := kernels.FastestType() == ggml.BF16; {
	case !gemmIsFast():
		return 0
	case !t.IsQuantized(), kernels.HasBatchedGEMV(t):
		return all
	case bf16 && t.BlockSize() == large:
		return all // three or four tokens take up to a quarter longer
	case bf16:
		return 0
	}
	return 2 // three to sixteen take up to twice as long
}

// Repack copies each matrix of the file into the first of the CPU's layouts that suits it for a number
// of sequences at a time, or unchanged into memory with large pages.
func Repack(file *ggml.GGUF, groups []nn.MatrixGroup, sequences int) (*Repacked, error) {
	cpu, err := ggml.DeviceByType(ggml.CPU)
	if err != nil {
		return nil, err
	}
	p := &Repacked{matrices: map[string]*repackedMatrix{}}
	if err := p.read(cpu, file, groups, sequences); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Repacked) read(cpu *ggml.Device, file *ggml.GGUF, groups []nn.MatrixGroup, sequences int) error {
	var data []byte
	for _, bt := range append(cpu.ExtraBufferTypes(), cpu.BufferType()) {
		c := ggml.NewContext()
		p.contexts = append(p.contexts, c)
		var copies []*repackedMatrix
		for _, g := range groups {
			for _, parts := range p.repackable(g, bt, sequences) {
				copies = append(copies, p.add(c, parts, bt.IsHost()))
			}
		}
		buffers, err := c.Allocate(bt)
		if err != nil {
			return err
		}
		p.buffers = append(p.buffers, buffers)
		buffers.SetUsage(ggml.UsageWeights)
		for _, m := range copies {
			if data, err = m.read(file, data[:0]); err != nil {
				return err
			}
			if _, err := m.w.WriteAt(data, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// repackable divides the matrices of one input that a layout supports into groups: matrices whose
// products are used together form one if they have the same type, the others are alone.
func (p *Repacked) repackable(g nn.MatrixGroup, bt *ggml.BufferType, sequences int) [][]nn.Matrix {
	var taken [][]nn.Matrix
	together := g.Together
	for _, m := range g.Matrices {
		together = together && m.W.Type() == g.Matrices[0].W.Type()
		if p.matrices[m.Name] == nil && (bt.IsHost() || packs(bt, m.W, sequences)) {
			taken = append(taken, []nn.Matrix{m})
		}
	}
	if together && len(taken) == len(g.Matrices) {
		return [][]nn.Matrix{g.Matrices}
	}
	return taken
}

// add makes the copy of matrices, without values.
func (p *Repacked) add(c *ggml.Context, parts []nn.Matrix, rowMajor bool) *repackedMatrix {
	var rows int64
	for _, part := range parts {
		rows += part.W.Dim(1)
	}
	first := parts[0]
	m := &repackedMatrix{c.NewTensor(first.W.Type(), first.W.Dim(0), rows).SetName(first.Name), rowMajor, parts}
	for _, part := range parts {
		p.matrices[part.Name] = m
	}
	return m
}

// read appends the parts' data to a slice, which grows at most once.
func (m *repackedMatrix) read(file *ggml.GGUF, data []byte) ([]byte, error) {
	data = slices.Grow(data, int(m.w.NumBytes()))
	for _, part := range m.parts {
		r, err := file.TensorData(part.Name)
		if err != nil {
			return nil, err
		}
		n := len(data)
		data = data[:n+int(r.Size())]
		if _, err := io.ReadFull(r, data[n:]); err != nil {
			return nil, fmt.Errorf("%s: tensor %s: %w", file.Name(), part.Name, err)
		}
	}
	return data, nil
}

// Close frees the copies. It never fails.
func (p *Repacked) Close() error {
	for _, b := range p.buffers {
		b.Close()
	}
	for _, c := range p.contexts {
		c.Close()
	}
	return nil
}
