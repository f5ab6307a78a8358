package infer

import (
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// Fused adapters are copies in the form in which the CPU multiplies fastest. The A of
// all pairs that see the same input are one matrix; each B is transposed and packed, and
// holds the scale.
//
// They are as exact as in their file: where the base rounds its input, to 8 bits for
// example, a small error of the adapter's makes it round otherwise, which changes logits
// far more than the error itself. So pairs in F32 stay F32, and those in F16 or BF16
// round what they multiply to it, as in stock llama.cpp.
type fusedAdapters struct {
	ctx     *ggml.Context
	buffers *ggml.Buffers
	pairs   map[string]fusedPair // by name of the matrix
	a       map[string]*ggml.Tensor
}

// A fusedPair changes one matrix W to W + b·a, with its rows of the group's A.
type fusedPair struct {
	group string
	row   int64        // first row of h = A·x
	b     *ggml.Tensor // [n_out, r]
}

// loraData is the values of a tensor before it has its place.
type loraData struct {
	tensor *ggml.Tensor
	values []float32
}

// fuseAdapters copies the adapters of all matrices of products.
func fuseAdapters(m *model.Model, adapters model.Adapters) (*fusedAdapters, error) {
	f := &fusedAdapters{ctx: ggml.NewContext(), pairs: map[string]fusedPair{}, a: map[string]*ggml.Tensor{}}
	var data []loraData
	for _, group := range m.Architecture().Groups() {
		if group[0].Role == arch.Embedding {
			continue // adapters of a tied embedding act on the lookup only
		}
		var names []string
		for _, w := range group {
			names = append(names, w.Name)
		}
		more, err := f.addGroup(m, names, adapters)
		if err != nil {
			f.close()
			return nil, err
		}
		data = append(data, more...)
	}
	var err error
	if f.buffers, err = f.ctx.Allocate(ggml.CPUBufferType()); err != nil {
		f.close()
		return nil, fmt.Errorf("adapters: %w", err)
	}
	for _, d := range data {
		if err := d.tensor.SetFloat32s(d.values); err != nil {
			f.close()
			return nil, err
		}
	}
	return f, nil
}

// addGroup makes the tensors of the matrices that share an input.
func (f *fusedAdapters) addGroup(m *model.Model, names []string, adapters model.Adapters) ([]loraData, error) {
	var stacks []stackedPairs
	for _, name := range names {
		s, err := stack(name, adapters[name], m.Weight(name))
		if err != nil {
			return nil, fmt.Errorf("an adapter of %s: %w", name, err)
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
	var rows []float32
	width := m.Weight(names[0]).Dim(0)
	for _, s := range stacks {
		bType := typ
		if !holds(bType, s.bs) { // not with the scale
			bType = ggml.F32
		}
		b := f.ctx.NewTensor(bType, m.Weight(s.name).Dim(1), int64(len(s.as))/width).SetName(s.name + ".b")
		f.pairs[s.name] = fusedPair{group: names[0], row: int64(len(rows)) / width, b: b}
		data = append(data, loraData{b, kernels.PackLoRA(s.bs, int(b.Dim(0)))})
		rows = append(rows, s.as...)
	}
	a := f.ctx.NewTensor(typ, width, int64(len(rows))/width).SetName(names[0] + ".a")
	f.a[names[0]] = a
	return append(data, loraData{a, rows}), nil
}

// stackedPairs are the pairs of a matrix [n_in, n_out] put together to one: the rows of
// the A, and, transposed, those of the scaled B.
type stackedPairs struct {
	name   string
	as, bs []float32
	typ    ggml.Type
}

func stack(name string, list []model.LoRAPair, w *ggml.Tensor) (stackedPairs, error) {
	s, out := stackedPairs{name: name}, int(w.Dim(1))
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
		if holds(p.Type, a) && holds(p.Type, b) { // not trained on since
			typ = p.Type
		}
		if len(s.as) > 0 {
			typ = common(typ, s.typ)
		}
		s.typ = typ
		rank := len(b) / out
		transposed := make([]float32, len(b))
		for i, x := range b {
			transposed[i%rank*out+i/rank] = p.Scale * x
		}
		s.as, s.bs = append(s.as, a...), append(s.bs, transposed...)
	}
	return s, nil
}

// common is the type of both, or F32.
func common(x, y ggml.Type) ggml.Type {
	if x == y {
		return x
	}
	return ggml.F32
}

// holds reports whether a type has all of the values.
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

func (f *fusedAdapters) close() {
	if f != nil {
		f.buffers.Close()
		f.ctx.Close()
	}
}

// adapts reports whether adapters change all of the matrices.
func (f *fusedAdapters) adapts(matrices ...nn.Matrix) bool {
	return !slices.ContainsFunc(matrices, func(m nn.Matrix) bool { return m.NoLoRA || f.pairs[m.Name].b == nil })
}

// addLoRA adds what the adapters of matrices make of x to y, the products of
// one after the other, which is in memory of its own.
func (p *cpuProducts) addLoRA(t *nn.Tape, y, x *ggml.Tensor, matrices ...nn.Matrix) *ggml.Tensor {
	if !p.fused.adapts(matrices...) {
		return y
	}
	return kernels.AddLoRA(t.C, y, p.loraPairs(t, x, matrices)...)
}

// loraPairs returns the pairs of B and h = A·x of the adapters of matrices.
func (p *cpuProducts) loraPairs(t *nn.Tape, x *ggml.Tensor, matrices []nn.Matrix) []kernels.LoRAPair {
	var pairs []kernels.LoRAPair
	for _, m := range matrices {
		pair := p.fused.pairs[m.Name]
		if p.lowRank[pair.group] == nil {
			p.lowRank[pair.group] = nn.Input(p.lowRankProduct(t, p.fused.a[pair.group], x))
		}
		h := p.lowRank[pair.group].T
		rows := t.C.View(h, []int64{pair.b.Dim(1), x.Dim(1)}, []int64{h.Stride(1)}, pair.row*h.Stride(0))
		pairs = append(pairs, kernels.LoRAPair{B: pair.b, H: rows, HType: p.fused.a[pair.group].Type()})
	}
	return pairs
}

// lowRankProduct returns A·x: exact where A is F32, else with x rounded to its type.
func (p *cpuProducts) lowRankProduct(t *nn.Tape, a, x *ggml.Tensor) *ggml.Tensor {
	if a.Type() == ggml.F32 && p.hasGEMM && x.Dim(1) >= gemmFrom(a.Type()) {
		return kernels.GEMM(t.C, ggml.PrecisionF32, kernels.Pair{W: a, X: x})
	}
	return p.roundedProduct(t, weight{w: a}, x)
}
