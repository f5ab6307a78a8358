package model

import "github.com/goggml/ggml"

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

// product returns w·x. In training it is exact to F32; in generation the CPU
// rounds x to suit the type of w, which is faster and what llama.cpp does.
func (p *Pass) product(t *tape, w, x *ggml.Tensor) *ggml.Tensor {
	if p.exact {
		return t.c.TiledMulMat(w, x)
	}
	return t.c.MulMat(w, x)
}

// linear returns W·x + bias + Σ s·B·(A·x) for x [n_in, n] → [n_out, n].
func (p *Pass) linear(t *tape, name string, x *Var) *Var {
	w := p.m.weights[name]
	c := t.c
	y := &Var{T: p.product(t, w, x.T), needs: x.needs || t.trains(w)}
	if bias := p.m.weights[biasName(name)]; bias != nil {
		y.T = c.Add(y.T, bias)
	}
	t.record(y, func(dy *ggml.Tensor) {
		t.flow(x, func() *ggml.Tensor { return c.TiledMulMatX(w, dy) })
		t.accumulate(w, func() *ggml.Tensor { return c.TiledMulMatW(x.T, dy) })
	})
	for _, d := range p.deltas[name] {
		if d.Scale != 0 {
			y = p.addDelta(t, y, x, d)
		}
	}
	return y
}

func biasName(weight string) string {
	const suffix = ".weight"
	return weight[:len(weight)-len(suffix)] + ".bias"
}

// addDelta returns y + s·B·(A·x).
func (p *Pass) addDelta(t *tape, y, x *Var, d Delta) *Var {
	c := t.c
	// The factor goes to the thin result, which B and its gradient share.
	h := c.Scale(p.product(t, d.A, x.T), d.Scale)
	sum := &Var{T: c.Add(y.T, p.product(t, d.B, h)), needs: y.needs || t.trains(d.A)}
	t.record(sum, func(dy *ggml.Tensor) {
		t.flow(y, func() *ggml.Tensor { return dy })
		t.accumulate(d.B, func() *ggml.Tensor { return c.TiledMulMatW(h, dy) })
		dh := c.Scale(c.TiledMulMatX(d.B, dy), d.Scale)
		t.accumulate(d.A, func() *ggml.Tensor { return c.TiledMulMatW(x.T, dh) })
		t.flow(x, func() *ggml.Tensor { return c.TiledMulMatX(d.A, dh) })
	})
	return sum
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
	for _, d := range p.deltas[name] {
		if d.Scale != 0 {
			x = p.embedDelta(t, x, tokens, d)
		}
	}
	return x
}

func (p *Pass) embedDelta(t *tape, x *Var, tokens *ggml.Tensor, d Delta) *Var {
	c := t.c
	h := c.Scale(c.GetRows(d.A, tokens), d.Scale)
	sum := &Var{T: c.Add(x.T, p.product(t, d.B, h)), needs: x.needs || t.trains(d.A)}
	t.record(sum, func(dy *ggml.Tensor) {
		t.flow(x, func() *ggml.Tensor { return dy })
		t.accumulate(d.B, func() *ggml.Tensor { return c.TiledMulMatW(h, dy) })
		dh := c.Scale(c.TiledMulMatX(d.B, dy), d.Scale)
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
		t.flow(gate, func() *ggml.Tensor { return c.SiluBack(c.Mul(dy, up.T), gate.T) })
		t.flow(up, func() *ggml.Tensor { return c.Mul(dy, c.Silu(gate.T)) })
	})
	return y
}

// heads turns x [heads·size, n·batch] into [size, heads, n, batch] and rotates
// by position.
func (p *Pass) rope(t *tape, x *Var, heads int) *Var {
	c, m := t.c, p.m
	factors := m.weights["rope_freqs.weight"]
	shape := []int64{int64(m.HeadSize), int64(heads), p.length, p.batch}
	y := &Var{T: c.RoPE(c.Reshape(x.T, shape...), p.positions, factors, m.RoPE), needs: x.needs}
	t.record(y, func(dy *ggml.Tensor) {
		t.flow(x, func() *ggml.Tensor {
			return c.Reshape(c.RoPEBack(dy, p.positions, factors, m.RoPE), x.T.Shape()...)
		})
	})
	return y
}
