package fused

import (
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/kernels"
)

// adapters are copies of adapters in the form that the CPU multiplies fastest. The A of all pairs
// with the same input form one matrix; each B is transposed and packed, and includes the scale.
//
// They are as exact as in their file: if the base rounds its input, to 8 bits for example, a small
// error of the adapter changes that rounding, which changes logits far more than the error itself.
// So pairs in F32 and F16 leave the other operand as it is, and pairs in BF16 round it to BF16, as
// ggml's MulMat does.
type adapters struct {
	ctx     *ggml.Context
	buffers *ggml.Buffers
	pairs   map[string]pair // by name of the matrix
	mixed   int             // number of adapters, see [nn.Mix]
}

// A pair changes one matrix W to W + b·a; its A is a range of rows of the A of all matrices with
// the same input.
type pair struct {
	a   *ggml.Tensor // [n_in, Σ r]
	of  *ggml.Tensor // [adapters, Σ r], 1 at the adapter of each row; nil unless adapters are mixed
	row int64        // first row of h = a·x
	b   *ggml.Tensor // [n_out, r]
}

// loraData is the values of a tensor before it is allocated.
type loraData struct {
	tensor *ggml.Tensor
	values []float32
}

// fuse copies the adapters of matrices, in groups that share an input.
func fuse(groups []nn.MatrixGroup, of nn.Adapters, mixed int) (*adapters, error) {
	f := &adapters{ctx: ggml.NewContext(), pairs: map[string]pair{}, mixed: mixed}
	if err := f.add(groups, of); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *adapters) add(groups []nn.MatrixGroup, of nn.Adapters) error {
	var data []loraData
	for _, g := range groups {
		more, err := f.addGroup(g.Matrices, of)
		if err != nil {
			return err
		}
		data = append(data, more...)
	}
	var err error
	if f.buffers, err = f.ctx.Allocate(ggml.CPUBufferType()); err != nil {
		return fmt.Errorf("adapters: %w", err)
	}
	for _, d := range data {
		if err := d.tensor.SetFloat32s(d.values); err != nil {
			return err
		}
	}
	return nil
}

// addGroup makes the tensors of the matrices that share an input.
func (f *adapters) addGroup(matrices []nn.Matrix, of nn.Adapters) ([]loraData, error) {
	var stacks []stackedPairs
	for _, m := range matrices {
		s, err := stack(m, of[m.Name])
		if err != nil {
			return nil, fmt.Errorf("an adapter of %s: %w", m.Name, err)
		}
		if len(s.as) > 0 {
			stacks = append(stacks, s)
		}
	}
	if len(stacks) == 0 {
		return nil, nil
	}
	typ := stacks[0].typ
	for _, s := range stacks {
		typ = common(typ, s.typ)
	}
	var data []loraData
	var rows, owners []float32
	width := matrices[0].W.Dim(0)
	for _, s := range stacks {
		bType := typ
		if !holds(bType, s.bs) { // not after scaling
			bType = ggml.F32
		}
		b := f.ctx.NewTensor(bType, s.of.W.Dim(1), int64(len(s.as))/width).SetName(s.of.Name + ".b")
		f.pairs[s.of.Name] = pair{row: int64(len(rows)) / width, b: b}
		data = append(data, loraData{b, kernels.PackLoRA(s.bs, int(b.Dim(0)))})
		rows = append(rows, s.as...)
		for _, owner := range s.owners {
			one := make([]float32, max(1, f.mixed))
			one[owner] = 1
			owners = append(owners, one...)
		}
	}
	a := f.ctx.NewTensor(typ, width, int64(len(rows))/width).SetName(matrices[0].Name + ".a")
	var selects *ggml.Tensor
	if f.mixed > 0 {
		selects = f.ctx.NewTensor(ggml.F32, int64(f.mixed), a.Dim(1)).SetName(matrices[0].Name + ".owners")
		data = append(data, loraData{selects, owners})
	}
	for _, s := range stacks {
		p := f.pairs[s.of.Name]
		p.a, p.of = a, selects
		f.pairs[s.of.Name] = p
	}
	return append(data, loraData{a, rows}), nil
}

// stackedPairs are the pairs of a matrix [n_in, n_out] stacked into one: the rows of the A and,
// transposed, of the scaled B.
type stackedPairs struct {
	of     nn.Matrix
	as, bs []float32
	owners []int // of each rank
	typ    ggml.Type
}

func stack(m nn.Matrix, list []nn.LoRAPair) (stackedPairs, error) {
	s, out := stackedPairs{of: m}, int(m.W.Dim(1))
	for _, p := range list {
		if p.Scale == 0 {
			continue
		}
		a, err := p.A.Float32s()
		if err != nil {
			return s, err
		}
		b, err := p.B.Float32s()
		if err != nil {
			return s, err
		}
		typ := ggml.F32
		if holds(p.Type, a) && holds(p.Type, b) { // not trained since loading
			typ = p.Type
		}
		if len(s.as) > 0 {
			typ = common(typ, s.typ)
		}
		s.typ = typ
		rank := len(b) / out
		s.as, s.bs = append(s.as, a...), append(s.bs, b...)
		for i, row := range slices.Collect(slices.Chunk(s.bs[len(s.bs)-len(b):], out)) { // the transpose of b
			for j := range row {
				row[j] = p.Scale * b[j*rank+i]
			}
		}
		s.owners = append(s.owners, slices.Repeat([]int{p.Owner}, rank)...)
	}
	return s, nil
}

// common returns the type of both, or F32 if they differ.
func common(x, y ggml.Type) ggml.Type {
	if x == y {
		return x
	}
	return ggml.F32
}

// holds reports whether a type represents all of the values exactly.
func holds(typ ggml.Type, values []float32) bool {
	var lost func(float32) bool
	switch typ {
	case ggml.F16:
		lost = func(x float32) bool { return ggml.ToFloat16(x).Float32() != x }
	case ggml.BF16:
		lost = func(x float32) bool { return ggml.ToBFloat16(x).Float32() != x }
	default:
		return typ == ggml.F32
	}
	return !slices.ContainsFunc(values, lost)
}

func (f *adapters) close() {
	f.buffers.Close()
	f.ctx.Close()
}

// of returns the pair of a matrix, or a pair without a and b.
func (f *adapters) of(m nn.Matrix) pair {
	if m.NoLoRA {
		return pair{}
	}
	return f.pairs[m.Name]
}

// adapt reports whether adapters change all of the matrices.
func (f *adapters) adapt(matrices []nn.Matrix) bool {
	return !slices.ContainsFunc(matrices, func(m nn.Matrix) bool { return f.of(m).b == nil })
}
