package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// The adapted matrices of a decoder: copies of the adapters in the form in
// which the CPU multiplies fastest. The A of all pairs that see the same input
// are one matrix; each B is turned, and holds the scale. Their types are thinTypes.
type adapted struct {
	ctx     *ggml.Context
	buffers *ggml.Buffers
	pairs   map[string]thinPair // by name of the matrix
	a       map[string]*ggml.Tensor
}

// A thinPair changes one matrix W to W + b·a, with its rows of the group's A.
type thinPair struct {
	group string
	row   int64        // first row of h = A·x
	b     *ggml.Tensor // [n_out, r]
}

// groups lists the matrices of products by the input that they share.
func (m *Model) groups() [][]string {
	groups := [][]string{{m.outputName()}}
	for layer := range m.Layers {
		for _, parts := range [][]string{{"attn_q", "attn_k", "attn_v"}, {"attn_output"}, {"ffn_gate", "ffn_up"}, {"ffn_down"}} {
			var names []string
			for _, part := range parts {
				names = append(names, layerTensor(layer, part))
			}
			groups = append(groups, names)
		}
	}
	return groups
}

// thinData is the values of a pair before they have their place.
type thinData struct {
	tensor *ggml.Tensor
	values []float32
}

// adapt copies the adapters of all matrices of products.
func (m *Model) adapt(deltas Deltas) (*adapted, error) {
	a := &adapted{ctx: ggml.NewContext(), pairs: map[string]thinPair{}, a: map[string]*ggml.Tensor{}}
	var data []thinData
	for _, names := range m.groups() {
		if m.Tied && names[0] == m.outputName() {
			continue // adapters of a tied embedding act on the lookup only
		}
		more, err := a.addGroup(m, names, deltas)
		if err != nil {
			a.close()
			return nil, err
		}
		data = append(data, more...)
	}
	var err error
	if a.buffers, err = a.ctx.Allocate(ggml.CPUBufferType()); err != nil {
		a.close()
		return nil, fmt.Errorf("adapters: %w", err)
	}
	for _, d := range data {
		if err := d.tensor.SetFloat32s(d.values); err != nil {
			a.close()
			return nil, err
		}
	}
	return a, nil
}

func (a *adapted) addGroup(m *Model, names []string, deltas Deltas) ([]thinData, error) {
	var data []thinData
	var rows []float32
	width := m.weights[names[0]].Dim(0)
	aType, bType := m.thinTypes(names, width)
	for _, name := range names {
		as, bs, err := stack(deltas[name], m.weights[name])
		if err != nil {
			return nil, fmt.Errorf("an adapter of %s: %w", name, err)
		}
		if len(as) == 0 {
			continue
		}
		balance(as, bs, bType)
		rank := int64(len(as)) / width
		b := a.ctx.NewTensor(bType, m.weights[name].Dim(1), rank).SetName(name + ".b")
		a.pairs[name] = thinPair{group: names[0], row: int64(len(rows)) / width, b: b}
		data = append(data, thinData{b, bs})
		rows = append(rows, as...)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	t := a.ctx.NewTensor(aType, width, int64(len(rows))/width).SetName(names[0] + ".a")
	a.a[names[0]] = t
	return append(data, thinData{t, rows}), nil
}

// thinTypes are the types of the A and the B of matrices that see the same input of
// a width: F32 or F16 where one of the matrices is, else BF16. But the A of quantised
// matrices is Q8_0, with an input rounded to 8 bits, as those see it.
func (m *Model) thinTypes(names []string, width int64) (a, b ggml.Type) {
	a, b = ggml.BF16, ggml.BF16
	if width%ggml.Q8_0.BlockSize() == 0 {
		a = ggml.Q8_0
	}
	for _, name := range names {
		switch t := m.weights[name].Type(); {
		case t == ggml.F32, t == ggml.F16 && b != ggml.F32:
			a, b = t, t
		case a == ggml.Q8_0 && !t.IsQuantized():
			a = b
		}
	}
	return a, b
}

// stack puts the pairs of a matrix [n_in, n_out] together to one: the rows of
// the A, and, turned, those of the scaled B.
func stack(list []Delta, w *ggml.Tensor) (as, bs []float32, err error) {
	out := int(w.Dim(1))
	for _, d := range list {
		if d.Scale == 0 {
			continue
		}
		a, err := d.A.Float32s()
		if err != nil {
			return nil, nil, err
		}
		b, err := d.B.Float32s()
		if err != nil {
			return nil, nil, err
		}
		rank := len(b) / out
		turned := make([]float32, len(b))
		for i, x := range b {
			turned[i%rank*out+i/rank] = d.Scale * x
		}
		as, bs = append(as, a...), append(bs, turned...)
	}
	return as, bs, nil
}

// balance multiplies one factor by a power of two and divides the other, so that
// neither loses digits: in F16 their largest values become alike; else that of A
// suits the F16 with which a block of Q8_0 is scaled, and B reaches as far as F32.
func balance(as, bs []float32, bType ggml.Type) {
	const suits = 5 // exponent of 2
	a, b := largest(as), largest(bs)
	if a == 0 || b == 0 {
		return
	}
	shift := suits - math.Ilogb(a)
	if bType == ggml.F16 {
		shift = (math.Ilogb(b) - math.Ilogb(a)) / 2
	}
	for i, x := range as {
		as[i] = float32(math.Ldexp(float64(x), shift))
	}
	for i, x := range bs {
		bs[i] = float32(math.Ldexp(float64(x), -shift))
	}
}

func largest(values []float32) float64 {
	most := 0.0
	for _, x := range values {
		most = max(most, math.Abs(float64(x)))
	}
	return most
}

func (a *adapted) close() {
	if a != nil {
		a.buffers.Close()
		a.ctx.Close()
	}
}

// adapts tells whether adapters change all of the matrices.
func (a *adapted) adapts(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return a.pairs[name].b == nil })
}

// addAdapted adds what the adapters of matrices make of x to y, the products of
// one after the other, which is in memory of its own.
func (p *Pass) addAdapted(t *tape, y, x *ggml.Tensor, names ...string) *ggml.Tensor {
	if !p.adapted.adapts(names...) {
		return y
	}
	return kernels.AddLoRA(t.c, y, p.lowRank(t, x, names)...)
}

// lowRank returns the pairs of B and h = A·x of the adapters of matrices, with h in
// the type of x.
func (p *Pass) lowRank(t *tape, x *ggml.Tensor, names []string) []kernels.LoRAPair {
	var pairs []kernels.LoRAPair
	for _, name := range names {
		pair := p.adapted.pairs[name]
		if p.thin[pair.group] == nil {
			p.thin[pair.group] = &Var{T: p.thinProduct(t, p.adapted.a[pair.group], x)}
		}
		h := p.thin[pair.group].T
		if x.Type() == ggml.BF16 {
			h = p.half(t, p.thin[pair.group])
		}
		rows := t.c.View(h, []int64{pair.b.Dim(1), x.Dim(1)}, []int64{h.Stride(1)}, pair.row*h.Stride(0))
		pairs = append(pairs, kernels.LoRAPair{B: pair.b, H: rows})
	}
	return pairs
}

// thinProduct returns a·x. For many tokens x is not rounded to 8 bits even if a is quantised.
func (p *Pass) thinProduct(t *tape, a, x *ggml.Tensor) *ggml.Tensor {
	if x.Type() == ggml.BF16 || p.tiles && x.Dim(1) >= tiledFrom(a.Type()) {
		return kernels.GEMM(t.c, ggml.PrecisionF32, kernels.Pair{W: a, X: x})
	}
	return p.product(t, kernels.Pair{W: a, X: x})
}
