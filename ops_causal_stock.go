package ggml

// Causal attention where there is no tiled library: blocks of queries, each of which
// sees the keys up to its end, one after the other, so that the scores of one block
// exist at a time.

const queryBlock = 128

// An attentionBlock is the operands and weights of the queries [from, to). The queries
// of the heads that share keys are rows of one matrix.
type attentionBlock struct {
	from, to int64
	q        *Tensor // [size, rows, groups, batch]
	k, v     *Tensor // [size, to, groups, batch]
	weights  *Tensor // [to, rows, groups, batch]
}

// attentionBlocks calls f for each block, the last one first: it needs most memory,
// where the others then fit.
func (c *Context) attentionBlocks(q, k, v *Tensor, scale float32, f func(b *attentionBlock)) {
	n, groups := q.ne[2], k.ne[1]
	for to := n; to > 0; {
		from := (to - 1) / queryBlock * queryBlock
		b := &attentionBlock{from: from, to: to, q: c.byGroup(q, groups, from, to), k: c.byGroup(k, groups, 0, to), v: c.byGroup(v, groups, 0, to)}
		scores := c.TiledMulMat(b.k, b.q)
		heads := c.Reshape(scores, to, to-from, q.ne[1], q.ne[3])
		b.weights = c.Reshape(c.CausalSoftMaxInPlace(heads, scale, int(from)), scores.Shape()...)
		f(b)
		to = from
	}
}

// byGroup turns the tokens [from, to) of x [size, heads, n, batch] into
// [size, rows, groups, batch].
func (c *Context) byGroup(x *Tensor, groups, from, to int64) *Tensor {
	shape := []int64{x.ne[0], x.ne[1], to - from, x.ne[3]}
	x = c.View(x, shape, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, from*x.Stride(2))
	return c.Cont(c.Permute(x, [4]int{0, 2, 1, 3}), shape[0], shape[1]/groups*shape[2], groups, shape[3])
}

// byToken is the inverse of byGroup.
func (c *Context) byToken(x *Tensor, heads int64) *Tensor {
	size, batch := x.ne[0], x.ne[3]
	x = c.Reshape(x, size, x.ne[1]*x.ne[2]/heads, heads, batch)
	return c.Cont(c.Permute(x, [4]int{0, 2, 1, 3}))
}

func (c *Context) attendInBlocks(q, k, v *Tensor, scale float32) *Tensor {
	y := c.Fill(c.Cont(q), 0)
	c.attentionBlocks(q, k, v, scale, func(b *attentionBlock) {
		part := c.byToken(c.TiledMulMatX(b.v, b.weights), q.ne[1])
		y = c.SetInPlace(y, part, [3]int64{y.Stride(1), y.Stride(2), y.Stride(3)}, b.from*y.Stride(2))
	})
	return y
}

// attendBackInBlocks returns the gradients of q, k and v one after the other. Each
// part is added to all of them, so that a block is done before the next one begins.
func (c *Context) attendBackInBlocks(dy, q, k, v *Tensor, scale float32) *Tensor {
	zeros := func(x *Tensor) *Tensor { return c.Fill(c.Cont(x, x.NumElements()), 0) }
	all := c.Concat(zeros(q), c.Concat(zeros(k), zeros(v), 0), 0)
	add := func(part *Tensor, like *Tensor, at, first int64) {
		size := F32.Size()
		row := like.ne[0] * size
		token := row * like.ne[1]
		all = c.AccInPlace(all, part, [3]int64{row, token, token * like.ne[2]}, at*size+first*token)
	}
	c.attentionBlocks(q, k, v, scale, func(b *attentionBlock) {
		d := c.byGroup(dy, k.ne[1], b.from, b.to)
		add(c.byToken(c.TiledMulMatW(d, b.weights), k.ne[1]), v, q.NumElements()+k.NumElements(), 0)
		scores := c.SoftMaxBackInPlace(c.TiledMulMat(b.v, d), b.weights, scale)
		add(c.byToken(c.TiledMulMatW(b.q, scores), k.ne[1]), k, q.NumElements(), 0)
		add(c.byToken(c.TiledMulMatX(b.k, scores), q.ne[1]), q, 0, b.from)
	})
	return all
}
