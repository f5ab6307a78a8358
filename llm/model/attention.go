package model

import (
	"cmp"
	"math"

	"github.com/goggml/ggml"
)

// An attention computes softmax(q·kᵀ/√size)·v for one layer, from
// q [size, heads, n, batch] and k, v [size, kv heads, n, batch] to
// [size·heads, n·batch].
type attention interface {
	attend(p *Pass, t *tape, layer int, q, k, v *Var) *Var
}

func (m *Model) attentionScale() float32 { return float32(1 / math.Sqrt(float64(m.HeadSize))) }

// causal is attention within a batch of sequences that all start at position
// 0, with gradients.
//
// Long sequences are cut into blocks of queries, each of which sees the keys up
// to its end: nothing grows faster than the number of tokens, half of the
// products are never made, and the backward pass computes the weights of a block
// again.
type causal struct {
	block int64 // queries of a block; 0 chooses
}

const (
	wholeUpTo  = 256 // tokens of a sequence that makes one block
	queryBlock = 128
)

func (a causal) spans(n int64) []span {
	block := a.block
	switch {
	case block > 0:
	case n <= wholeUpTo:
		block = n
	default:
		block = queryBlock
	}
	return cut(n, block)
}

// positions is a view of some positions of x [size, heads, n, batch].
func positions(c *ggml.Context, x *ggml.Tensor, s span) *ggml.Tensor {
	shape := []int64{x.Dim(0), x.Dim(1), s.to - s.from, x.Dim(3)}
	return c.View(x, shape, strides(x), s.from*x.Stride(2))
}

func strides(x *ggml.Tensor) []int64 { return []int64{x.Stride(1), x.Stride(2), x.Stride(3)} }

// byHead turns [size, heads, n, batch] into [size, n·heads/groups, groups, batch]:
// the queries of the heads that share a key head become rows, so that products
// sum their gradients.
func byHead(c *ggml.Context, x *ggml.Tensor, groups int64) *ggml.Tensor {
	size, heads, n, batch := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	return c.Cont(c.Permute(x, [4]int{0, 2, 1, 3}), size, n*heads/groups, groups, batch)
}

// byToken is the inverse of byHead.
func byToken(c *ggml.Context, x *ggml.Tensor, heads, n int64) *ggml.Tensor {
	size, batch := x.Dim(0), x.Dim(3)
	x = c.Reshape(x, size, n, heads, batch)
	return c.Cont(c.Permute(x, [4]int{0, 2, 1, 3}))
}

// A block is the operands and weights of the queries of a span.
type block struct {
	span
	q       *ggml.Tensor // [size, rows, groups, batch]
	k, v    *ggml.Tensor // [size, to, groups, batch]
	weights *ggml.Tensor // [to, rows, groups, batch]
}

// newBlock computes the weights from q, k and v [size, heads, n, batch].
func (p *Pass) newBlock(c *ggml.Context, s span, q, k, v *ggml.Tensor) block {
	groups, heads := k.Dim(1), q.Dim(1)
	b := block{span: s, q: byHead(c, positions(c, q, s), groups)}
	seen := span{0, s.to}
	b.k, b.v = byHead(c, positions(c, k, seen), groups), byHead(c, positions(c, v, seen), groups)
	scores := c.TiledMulMat(b.k, b.q)
	shape := scores.Shape()
	scores = c.Reshape(scores, s.to, s.to-s.from, heads, q.Dim(3))
	scores = c.CausalSoftMaxInPlace(scores, p.m.attentionScale(), int(s.from))
	b.weights = c.Reshape(scores, shape...)
	return b
}

// put writes the positions of a span into x, in place; a nil x is made, of the
// shape of like.
func put(c *ggml.Context, x, part, like *ggml.Tensor, s span) *ggml.Tensor {
	switch {
	case s.from == 0 && s.to == like.Dim(2):
		return part
	case x == nil:
		x = c.Fill(like, 0)
	}
	return c.SetInPlace(x, part, [3]int64(strides(x)), s.from*x.Stride(2))
}

// addFirst adds to the first positions of x, in place; a nil x is the part.
func addFirst(c *ggml.Context, x, part *ggml.Tensor) *ggml.Tensor {
	if x == nil {
		return part
	}
	return c.AccInPlace(x, part, [3]int64(strides(x)), 0)
}

func (a causal) attend(p *Pass, t *tape, _ int, qv, kv, vv *Var) *Var {
	c, heads, n := t.c, int64(p.m.Heads), p.length
	spans := a.spans(n)
	var out *ggml.Tensor
	var last block
	for _, s := range spans {
		last = p.newBlock(c, s, qv.T, kv.T, vv.T)
		part := byToken(c, c.TiledMulMatX(last.v, last.weights), heads, s.to-s.from)
		out = put(c, out, part, qv.T, s)
	}
	y := &Var{T: c.Reshape(out, int64(p.m.HeadSize)*heads, n*p.batch), needs: qv.needs || kv.needs || vv.needs}
	t.record(y, func(dy *ggml.Tensor) {
		dout := c.Reshape(dy, int64(p.m.HeadSize), heads, n, p.batch)
		var d gradients
		if len(spans) > 1 {
			d.zero(t, kv, vv)
		}
		for i := len(spans) - 1; i >= 0; i-- {
			b := last
			if len(spans) > 1 {
				b = p.newBlock(c, spans[i], qv.T, kv.T, vv.T)
			}
			d.add(p, t, b, dout, qv, kv, vv)
		}
		t.flow(qv, func() *ggml.Tensor { return d.q })
		t.flow(kv, func() *ggml.Tensor { return d.k })
		t.flow(vv, func() *ggml.Tensor { return d.v })
	})
	return y
}

// gradients are those of q, k and v, as far as they are needed; the blocks add
// to them, the last one first.
type gradients struct{ q, k, v *ggml.Tensor }

// zero makes those of k and v before the first block: later they would be where its
// weights were, and the next block's would not fit there.
func (d *gradients) zero(t *tape, kv, vv *Var) {
	if kv.needs {
		d.k = t.c.Fill(kv.T, 0)
		t.g.Expand(d.k)
	}
	if vv.needs {
		d.v = t.c.Fill(vv.T, 0)
		t.g.Expand(d.v)
	}
}

func (d *gradients) add(p *Pass, t *tape, b block, dout *ggml.Tensor, qv, kv, vv *Var) {
	c, groups, heads := t.c, int64(p.m.KVHeads), int64(p.m.Heads)
	dpart := byHead(c, positions(c, dout, b.span), groups)
	if vv.needs {
		d.v = addFirst(c, d.v, byToken(c, c.TiledMulMatW(dpart, b.weights), groups, b.to))
		t.g.Expand(d.v)
	}
	if !qv.needs && !kv.needs {
		return
	}
	dscores := c.SoftMaxBackInPlace(c.TiledMulMat(b.v, dpart), b.weights, p.m.attentionScale())
	if kv.needs {
		d.k = addFirst(c, d.k, byToken(c, c.TiledMulMatW(b.q, dscores), groups, b.to))
		t.g.Expand(d.k)
	}
	if qv.needs {
		// The block is done with its part of dout, which is of the result alone.
		d.q = put(c, cmp.Or(d.q, dout), byToken(c, c.TiledMulMatX(b.k, dscores), heads, b.to-b.from), qv.T, b.span)
		t.g.Expand(d.q)
	}
}
