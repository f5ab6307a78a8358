package model

import (
	"slices"
	"sync"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// A Delta is a LoRA pair (arXiv 2106.09685) on a matrix W [n_in, n_out]:
// A [n_in, r] and B [r, n_out] make y = W·x + Scale · B·(A·x). On the token
// embedding [n_embd, n_vocab] the sides are exchanged: A [r, n_vocab] is looked
// up, B [r, n_embd].
type Delta struct {
	A, B  *ggml.Tensor
	Scale float32
}

// Deltas are the pairs of all adapters in use, by the name of the tensor.
type Deltas map[string][]Delta

// product returns w·x, plus the products of further pairs, with x as operand
// returns it.
func (p *Pass) product(t *tape, pairs ...kernels.Pair) *ggml.Tensor {
	if w, x := pairs[0].W, pairs[0].X; p.tiled(w, x) {
		return kernels.GEMM(t.c, p.accumulation(t, w, x), pairs...)
	}
	var sum *ggml.Tensor
	for _, q := range pairs {
		y := p.untiled(t, q)
		if sum != nil {
			y = t.c.Add(sum, y)
		}
		sum = y
	}
	return sum
}

// untiled is a product for which there is a faster op than GEMM.
func (p *Pass) untiled(t *tape, q kernels.Pair) *ggml.Tensor {
	if p.streamed(q.W, q.X) {
		return kernels.GEMV(t.c, q.X, q.W)
	}
	return t.c.MulMat(q.W, q.X)
}

// fastTiles tells whether many tokens are multiplied faster by tiles than by the
// device's products of 8 bits: in BF16, and in F32 by vectors of 512 bits.
var fastTiles = sync.OnceValue(func() bool {
	cpu, err := ggml.ReadCPUInfo()
	library, _ := kernels.GEMMLibrary()
	return kernels.FastestType() == ggml.BF16 || library != "" && err == nil && cpu.AVX512
})

// tiledFrom is the number of tokens from which on a product with a matrix of a type
// takes less time tile by tile than as a stream.
func tiledFrom(t ggml.Type) int64 {
	switch bf16 := kernels.FastestType() == ggml.BF16; {
	case kernels.GEMVBatched(t) && !bf16:
		return 40
	case kernels.GEMVBatched(t), t.IsQuantized() && !bf16:
		return 8
	}
	return 5
}

// tiled tells whether w·x is computed tile by tile: all of training, and in
// generation products of many tokens with matrices in the layout of the file. But
// quantised matrices are only if they were copied for speed, and if tiles are
// fast: they are faster than the device's products of 8 bits then, and round x less.
func (p *Pass) tiled(w, x *ggml.Tensor) bool {
	j := p.m.packed.of(w)
	switch {
	case p.exact:
		return true
	case !p.tiles || x.Dim(1) < tiledFrom(w.Type()) || j != nil && !j.plain:
		return false
	}
	return !w.Type().IsQuantized() || j != nil && fastTiles()
}

// streamed tells whether w·x, which is not tiled, is multiplied faster as a stream
// than by the device's own op.
func (p *Pass) streamed(w, x *ggml.Tensor) bool {
	const few = 8
	j := p.m.packed.of(w)
	return p.cpu && (x.Dim(1) < few || kernels.GEMVBatched(w.Type())) && (j == nil || j.plain)
}

// matrix is the matrix of a product: in generation the packed one, if the model
// has one.
func (p *Pass) matrix(name string) *ggml.Tensor {
	if j := p.m.packed.joint(name); j != nil && !p.exact {
		return j.w
	}
	return p.m.weights[name]
}

// linear returns W·x + bias + Σ s·B·(A·x) for x [n_in, n] → [n_out, n].
func (p *Pass) linear(t *tape, name string, x *Var) *Var { return p.linears(t, x, name)[0] }

// linears is linear for several matrices with the same x, with copies of the
// adapters by as few ops as there can be.
func (p *Pass) linears(t *tape, x *Var, names ...string) []*Var {
	var list []*Var
	if p.adapted == nil {
		for _, name := range names {
			list = append(list, p.withDeltas(t, name, x))
		}
		return list
	}
	for _, o := range p.multiply(t, x, names) {
		row := int64(0)
		for _, name := range o.names {
			part := o.y
			if len(o.names) > 1 {
				part = t.c.View(o.y, []int64{p.m.weights[name].Dim(1), o.y.Dim(1)}, []int64{o.y.Stride(1)}, row*o.y.Stride(0))
				row += part.Dim(0)
			}
			if !o.adapted {
				part = p.addAdapted(t, part, x.T, name)
			}
			list = append(list, &Var{T: p.addBias(t, name, part)})
		}
	}
	return list
}

// An output is what one op makes of some matrices: their products with an x
// [Σ n_out, n], one after the other.
type output struct {
	y       *ggml.Tensor
	names   []string
	adapted bool // with what the adapters of all make of x
}

// multiply returns the products of matrices with x, adapted where one op can do it
// for all that are together.
func (p *Pass) multiply(t *tape, x *Var, names []string) []output {
	if y := p.stream(t, x.T, names); y != nil {
		return []output{p.adaptTogether(t, y, x, names)}
	}
	if j := p.m.packed.joint(names...); j != nil {
		return []output{p.multiplyBy(t, j.w, x, names)}
	}
	var list []output
	for _, name := range names {
		list = append(list, p.multiplyBy(t, p.matrix(name), x, []string{name}))
	}
	return list
}

// multiplyBy returns the product of x with the matrix that some are together.
func (p *Pass) multiplyBy(t *tape, w *ggml.Tensor, x *Var, names []string) output {
	in := p.operand(t, w, x)
	if p.tiled(w, in) && p.adapted.adapts(names...) {
		y := kernels.GEMMLoRA(t.c, p.accumulation(t, w, in), kernels.Pair{W: w, X: in}, p.lowRank(t, in, names)...)
		return output{y, names, true}
	}
	return p.adaptTogether(t, p.product(t, kernels.Pair{W: w, X: in}), x, names)
}

// adaptTogether adds the adapters of matrices to their products y, if all have one.
func (p *Pass) adaptTogether(t *tape, y *ggml.Tensor, x *Var, names []string) output {
	return output{p.addAdapted(t, y, x.T, names...), names, p.adapted.adapts(names...)}
}

// stream multiplies a single token by all matrices of an input, and by the A of
// their adapters, in one op; nil if one of them is not streamed. Of several tokens
// the products would not lie one after the other.
func (p *Pass) stream(t *tape, x *ggml.Tensor, names []string) *ggml.Tensor {
	var ws []*ggml.Tensor
	if j := p.m.packed.joint(names...); j != nil {
		ws = []*ggml.Tensor{j.w}
	} else {
		for _, name := range names {
			ws = append(ws, p.matrix(name))
		}
	}
	if x.Dim(1) > 1 || slices.ContainsFunc(ws, func(w *ggml.Tensor) bool { return !p.streamed(w, x) }) {
		return nil
	}
	a := p.adapted.a[names[0]]
	if a == nil {
		return kernels.GEMV(t.c, x, ws...)
	}
	all := kernels.GEMV(t.c, x, append(ws, a)...)
	rows := all.Dim(0) - a.Dim(1)
	p.thin[names[0]] = &Var{T: t.c.View(all, []int64{a.Dim(1)}, nil, rows*all.Stride(0))}
	return t.c.View(all, []int64{rows}, nil, 0)
}

// half is x as the products of a pass in BF16 take it, and x itself in F32.
func (p *Pass) half(t *tape, x *Var) *ggml.Tensor {
	if p.products != ggml.BF16 {
		return x.T
	}
	if x.half == nil {
		x.half = kernels.CastBF16(t.c, x.T)
	}
	return x.half
}

// rounds tells whether the product with the weight w is in the type of the pass. In
// training it is exact if w is trained. In generation the device rounds x to suit
// the type of w, as in llama.cpp; tiles do, where w has no more bits than BF16.
func (p *Pass) rounds(t *tape, w, x *ggml.Tensor) bool {
	if p.exact {
		return !t.trains(w)
	}
	return p.tiled(w, x) && w.Type() != ggml.F32 && w.Type() != ggml.F16
}

// accumulation is the precision in which the tiled product of w with x is added up.
func (p *Pass) accumulation(t *tape, w, x *ggml.Tensor) ggml.Precision {
	if p.rounds(t, w, x) {
		return t.acc
	}
	return ggml.PrecisionF32
}

// operand is x as the product with the weight w takes it.
func (p *Pass) operand(t *tape, w *ggml.Tensor, x *Var) *ggml.Tensor {
	if p.rounds(t, w, x.T) {
		return p.half(t, x)
	}
	return x.T
}

// withDeltas is linear with the adapters as they are, of which gradients flow.
func (p *Pass) withDeltas(t *tape, name string, x *Var) *Var {
	w := p.matrix(name)
	c := t.c
	y := &Var{needs: x.needs || t.trains(w)}
	pairs := []kernels.Pair{{W: w, X: p.operand(t, w, x)}}
	deltas := p.adapters(name)
	thin := make([]*Var, len(deltas)) // s·A·x
	for i, d := range deltas {
		// The factor goes to the thin result, which B and its gradient share.
		thin[i] = &Var{T: c.Scale(p.product(t, kernels.Pair{W: d.A, X: x.T}), d.Scale)}
		pairs = append(pairs, kernels.Pair{W: d.B, X: thin[i].T})
		y.needs = y.needs || t.trains(d.A)
	}
	y.T = p.addBias(t, name, p.product(t, pairs...))
	t.record(y, func(grad *ggml.Tensor) {
		dy := &Var{T: grad}
		t.accumulateProduct(w, x.T, dy.T)
		t.flowProduct(x, w, p.operand(t, w, dy))
		for i, d := range deltas {
			p.backDelta(t, x, thin[i], dy, d)
		}
	})
	return y
}

// backDelta takes the gradient of h's product with B back to A, B and x. An
// adapter is exact on the way forward, where the layers that follow enlarge an
// error; of its gradients, all but that of the thin h can be rounded.
func (p *Pass) backDelta(t *tape, x, h, dy *Var, d Delta) {
	c := t.c
	t.accumulateProduct(d.B, p.half(t, h), p.half(t, dy))
	dh := p.half(t, &Var{T: c.Scale(gradInput(c, d.B, dy.T), d.Scale)})
	t.accumulateProduct(d.A, p.half(t, x), dh)
	t.flowProduct(x, d.A, dh)
}

// gradInput is the exact gradient of x in w·x.
func gradInput(c *ggml.Context, w, dy *ggml.Tensor) *ggml.Tensor {
	return kernels.GEMMGradInput(c, ggml.PrecisionF32, kernels.Pair{W: w, X: dy})
}

// adapters lists the pairs on a matrix that change it.
func (p *Pass) adapters(name string) []Delta {
	var list []Delta
	for _, d := range p.deltas[name] {
		if d.Scale != 0 {
			list = append(list, d)
		}
	}
	return list
}

// addBias adds the bias that belongs to a weight, if there is one.
func (p *Pass) addBias(t *tape, weight string, y *ggml.Tensor) *ggml.Tensor {
	if bias := p.m.weights[biasName(weight)]; bias != nil {
		return t.c.Add(y, bias)
	}
	return y
}

// embed looks up tokens [n] → [n_embd, n].
func (p *Pass) embed(t *tape, tokens *ggml.Tensor) *Var {
	const name = "token_embd.weight"
	w := p.m.weights[name]
	c := t.c
	x := &Var{T: c.GetRows(w, tokens), needs: t.trains(w)}
	t.record(x, func(dx *ggml.Tensor) {
		t.accumulate(w, func() *ggml.Tensor { return c.GetRowsBack(dx, tokens, w) })
	})
	for _, d := range p.adapters(name) {
		x = p.embedDelta(t, x, tokens, d)
	}
	return x
}

func (p *Pass) embedDelta(t *tape, x *Var, tokens *ggml.Tensor, d Delta) *Var {
	c := t.c
	h := c.Scale(c.GetRows(d.A, tokens), d.Scale)
	sum := &Var{T: c.Add(x.T, p.product(t, kernels.Pair{W: d.B, X: h})), needs: x.needs || t.trains(d.A)}
	t.record(sum, func(dy *ggml.Tensor) {
		t.flow(x, func() *ggml.Tensor { return dy })
		t.accumulateProduct(d.B, h, dy)
		dh := c.Scale(gradInput(c, d.B, dy), d.Scale)
		t.accumulate(d.A, func() *ggml.Tensor { return c.GetRowsBack(dh, tokens, d.A) })
	})
	return sum
}

// norm returns x / rms(x) · w.
func (p *Pass) norm(t *tape, name string, x *Var) *Var {
	c, eps := t.c, p.m.RMSEps
	w := p.m.weights[name]
	unit := c.RMSNorm(x.T, eps)
	y := &Var{T: c.Mul(unit, w), needs: x.needs || t.trains(w)}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulate(w, func() *ggml.Tensor { return c.RepeatBack(c.Mul(dy, unit), w) })
		t.flow(x, func() *ggml.Tensor { return c.RMSNormBack(c.Mul(dy, w), x.T, eps) })
	})
	return y
}

func (t *tape) add(x, y *Var) *Var {
	sum := &Var{T: t.c.Add(x.T, y.T), needs: x.needs || y.needs}
	t.record(sum, func(d *ggml.Tensor) {
		t.flow(x, func() *ggml.Tensor { return d })
		t.flow(y, func() *ggml.Tensor { return d })
	})
	return sum
}

// swiglu returns silu(gate) · up.
func (t *tape) swiglu(gate, up *Var) *Var {
	c := t.c
	y := &Var{T: c.GLUSplit(ggml.SwiGLU, gate.T, up.T), needs: gate.needs || up.needs}
	t.record(y, func(dy *ggml.Tensor) {
		// Nothing reads up from here on, so its memory can take a gradient.
		t.flow(gate, func() *ggml.Tensor { return kernels.SwiGLUGradInPlace(c, up.T, gate.T, dy) })
		t.flow(up, func() *ggml.Tensor { return c.GLUSplit(ggml.SwiGLU, gate.T, dy) })
	})
	return y
}

// heads turns x [heads·size, n·batch], whose rows may lie apart, into [size,
// heads, n, batch].
func (p *Pass) heads(t *tape, x *Var, heads int) *Var {
	size := int64(p.m.HeadSize)
	shape, strides := []int64{size, int64(heads), p.length, p.batch}, []int64{size * x.T.Stride(0), x.T.Stride(1)}
	y := &Var{T: t.c.View(x.T, shape, strides, 0), needs: x.needs}
	t.record(y, func(dy *ggml.Tensor) {
		t.flow(x, func() *ggml.Tensor { return t.c.Reshape(dy, x.T.Shape()...) })
	})
	return y
}

// rope rotates x [size, heads, n, batch] by position.
func (p *Pass) rope(t *tape, x *Var) *Var {
	c, m := t.c, p.m
	factors := m.weights[ropeFactors]
	y := &Var{T: c.RoPE(x.T, p.positions, factors, m.RoPE), needs: x.needs}
	t.record(y, func(dy *ggml.Tensor) {
		t.flow(x, func() *ggml.Tensor { return c.RoPEBack(dy, p.positions, factors, m.RoPE) })
	})
	return y
}
