package kernels

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/testhook"
)

// Compositions of ggml's own ops that replace the kernels if there is no GEMM library.

// fallback sums the products of the pairs.
func (g *gemm) fallback(c *ggml.Context, pairs []Pair) *ggml.Tensor {
	sum := g.builtin(c, pairs[0].W, pairs[0].X)
	for _, p := range pairs[1:] {
		sum = c.Add(sum, g.builtin(c, p.W, p.X))
	}
	return sum
}

func toF32(c *ggml.Context, t *ggml.Tensor) *ggml.Tensor {
	if t != nil && t.Type() == ggml.F32 {
		return t
	}
	return c.Cast(t, ggml.F32)
}

// mulMats computes GEMV if one of the matrices has no dot product.
func mulMats(c *ggml.Context, x *ggml.Tensor, w []*ggml.Tensor) *ggml.Tensor {
	y := c.MulMat(w[0], x)
	for _, w := range w[1:] {
		y = c.Concat(y, c.MulMat(w, x), 0)
	}
	return y
}

// Causal attention in blocks of queries, one after another, so that only the scores of one block
// exist at a time. Each block sees the keys up to its end.

const queryBlock = 128

func init() { testhook.CausalSoftMax = causalSoftMaxInPlace }

// An attentionBlock contains the operands and weights of the queries [from, to). The queries of
// heads that share keys are rows of one matrix.
type attentionBlock struct {
	from, to int64
	q        *ggml.Tensor // [size, rows, groups, batch]
	k, v     *ggml.Tensor // [size, to, groups, batch]
	bent     *ggml.Tensor // tanh of capped scores, between −1 and 1; nil without a softcap
	weights  *ggml.Tensor // [to, rows, groups, batch]
}

// attentionBlocks calls f for each block, the last one first: it needs the most memory, which the
// other blocks then reuse.
func attentionBlocks(c *ggml.Context, a Attention, f func(b *attentionBlock)) {
	groups := a.K.Dim(1)
	for to := a.Q.Dim(2); to > 0; {
		from := (to - 1) / queryBlock * queryBlock
		b := &attentionBlock{from: from, to: to, q: byGroup(c, a.Q, groups, from, to), k: byGroup(c, a.K, groups, 0, to), v: byGroup(c, a.V, groups, 0, to)}
		scores, scale := c.MulMat(b.k, b.q), a.Scale
		shape := scores.Shape()
		if limit := a.Scores.Softcap; limit != 0 {
			b.bent = c.Tanh(c.Scale(scores, scale/limit))
			scores, scale = c.Cont(b.bent), limit
		}
		heads := c.Reshape(scores, to, to-from, a.Q.Dim(1), a.Q.Dim(3))
		b.weights = c.Reshape(causalSoftMaxInPlace(c, heads, a, scale, int(from)), shape...)
		f(b)
		to = from
	}
}

// byGroup rearranges the tokens [from, to) of x: [size, heads, n, batch] → [size, rows, groups,
// batch].
func byGroup(c *ggml.Context, x *ggml.Tensor, groups, from, to int64) *ggml.Tensor {
	ne := []int64{x.Dim(0), x.Dim(1), to - from, x.Dim(3)}
	x = c.View(x, ne, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, from*x.Stride(2))
	return c.Cont(c.Permute(x, [4]int{0, 2, 1, 3}), ne[0], ne[1]/groups*ne[2], groups, ne[3])
}

// byToken is the inverse of byGroup.
func byToken(c *ggml.Context, x *ggml.Tensor, heads int64) *ggml.Tensor {
	size, batch := x.Dim(0), x.Dim(3)
	x = c.Reshape(x, size, x.Dim(1)*x.Dim(2)/heads, heads, batch)
	return c.Cont(c.Permute(x, [4]int{0, 2, 1, 3}))
}

func attendInBlocks(c *ggml.Context, a Attention) *ggml.Tensor {
	y := c.Fill(c.Cont(a.Q), 0)
	attentionBlocks(c, a, func(b *attentionBlock) {
		part := byToken(c, c.OutProd(b.v, c.Transpose(b.weights)), a.Q.Dim(1))
		y = c.SetInPlace(y, part, [3]int64{y.Stride(1), y.Stride(2), y.Stride(3)}, b.from*y.Stride(2))
	})
	return y
}

// attendGradInBlocks returns the gradients of Q, K and V, and of the sink for each head of each
// sequence, one after another. Each block's gradients are added to the whole result, so that a
// block is done before the next one begins.
func attendGradInBlocks(c *ggml.Context, dy *ggml.Tensor, a Attention) *ggml.Tensor {
	zeros := func(x *ggml.Tensor) *ggml.Tensor { return c.Fill(c.Cont(x, x.NumElements()), 0) }
	heads, groups, batch := a.Q.Dim(1), a.K.Dim(1), a.Q.Dim(3)
	sinks := c.View(a.Q, []int64{1, heads, 1, batch}, []int64{a.Q.Stride(1), a.Q.Stride(2), a.Q.Stride(3)}, 0)
	all := c.Concat(c.Concat(zeros(a.Q), c.Concat(zeros(a.K), zeros(a.V), 0), 0), zeros(sinks), 0)
	add := func(part *ggml.Tensor, like *ggml.Tensor, at, first int64) {
		size := ggml.F32.BlockBytes()
		row := like.Dim(0) * size
		token := row * like.Dim(1)
		all = c.AccInPlace(all, part, [3]int64{row, token, token * like.Dim(2)}, at*size+first*token)
	}
	attentionBlocks(c, a, func(b *attentionBlock) {
		d := byGroup(c, dy, groups, b.from, b.to)
		add(byToken(c, c.OutProd(d, b.weights), groups), a.V, a.Q.NumElements()+a.K.NumElements(), 0)
		scores := c.MulMat(b.v, d)
		if a.Scores.Sinks != nil {
			// The weight of the sink is 1 minus the sum of the others; its own output is 0.
			each := c.Mul(c.ScaleBias(c.SumRows(b.weights), 1, -1), c.SumRows(c.Mul(b.weights, scores)))
			each = c.SumRows(c.Reshape(each, b.to-b.from, heads, batch))
			add(c.Reshape(each, 1, heads, 1, batch), sinks, a.Q.NumElements()+2*a.K.NumElements(), 0)
		}
		scores = c.SoftMaxBackInPlace(scores, b.weights, a.Scale)
		if b.bent != nil {
			scores = c.Mul(scores, c.ScaleBias(c.Sqr(b.bent), -1, 1))
		}
		add(byToken(c, c.OutProd(b.q, scores), groups), a.K, a.Q.NumElements(), 0)
		add(byToken(c, c.OutProd(b.k, c.Transpose(scores)), heads), a.Q, 0, b.from)
	})
	return all
}
