package nn

import "github.com/goggml/ggml"

// queryBlock is the number of queries whose scores exist at a time.
const queryBlock = 512

// masked is what the scores of keys that a query does not see are lowered by: their
// weights are 0 then, and no infinity meets another.
const masked = 1e30

// VisibleType is F32, in which masks are computed.
func (stock) VisibleType() ggml.Type { return ggml.F32 }

// A scoreBlock is the attention of the queries [from, to) to the keys before to.
type scoreBlock struct {
	from, to int64
	q, k, v  *ggml.Tensor // [size, n, heads, batch], [size, to, kv heads, batch] each
	bent     *ggml.Tensor // scores between −1 and 1, where there is a softcap
	weights  *ggml.Tensor // [to, n, heads, batch]
}

// scoreBlocks calls f for each block, the last one first: it needs most memory, where
// the others then fit.
func scoreBlocks(c *ggml.Context, a AttentionOperands, f func(b *scoreBlock)) {
	for to := a.Q.Dim(2); to > 0; {
		from := (to - 1) / queryBlock * queryBlock
		b := &scoreBlock{from: from, to: to, q: byHead(c, a.Q, from, to), k: byHead(c, a.K, 0, to), v: byHead(c, a.V, 0, to)}
		scores, scale := mulMat(c, b.k, b.q), a.Scale
		if limit := a.Scores.Softcap; limit != 0 {
			b.bent = c.Tanh(c.Scale(scores, scale/limit))
			scores, scale = b.bent, limit
		}
		b.weights = c.SoftMaxExt(scores, ggml.SoftMaxOptions{Mask: mask(c, a, from, to), Scale: scale, MaxBias: a.Scores.MaxBias, Sinks: a.Scores.Sinks})
		f(b)
		to = from
	}
}

// byHead rearranges the tokens [from, to) of x [size, heads, n, batch] to
// [size, tokens, heads, batch].
func byHead(c *ggml.Context, x *ggml.Tensor, from, to int64) *ggml.Tensor {
	shape := []int64{x.Dim(0), x.Dim(1), to - from, x.Dim(3)}
	x = c.View(x, shape, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, from*x.Stride(2))
	return c.Cont(c.Permute(x, [4]int{0, 2, 1, 3}))
}

// byToken is the inverse of byHead.
func byToken(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.Cont(c.Permute(x, [4]int{0, 2, 1, 3}))
}

// mask [to, n, 1, batch] is 0 where a query sees a key, for ALiBi less their distance, and very
// low where not.
func mask(c *ggml.Context, a AttentionOperands, from, to int64) *ggml.Tensor {
	n := to - from
	keys := c.Arange(0, float32(to), 1)
	queries := c.Repeat(c.Reshape(c.Arange(float32(from), float32(to), 1), 1, n), to, n)
	distance := c.Sub(queries, keys)
	hidden := c.Clamp(c.Scale(distance, masked), -masked, 0) // keys after the query
	if a.Scores.MaxBias != 0 {
		hidden = c.Sub(hidden, distance)
	}
	if a.FirstVisible == nil {
		return hidden
	}
	batch := a.FirstVisible.Dim(1)
	first := c.View(a.FirstVisible, []int64{1, n, 1, batch}, []int64{a.FirstVisible.Stride(0), a.FirstVisible.Stride(1), a.FirstVisible.Stride(1)}, from*a.FirstVisible.Stride(0))
	first = c.Repeat(c.Cont(first), to, n, 1, batch)
	before := c.Clamp(c.Scale(c.Sub(first, keys), -masked), -masked, 0)
	return c.Add(before, hidden)
}

func (stock) Attention(c *ggml.Context, a AttentionOperands) *ggml.Tensor {
	var all *ggml.Tensor
	scoreBlocks(c, a, func(b *scoreBlock) {
		y := byToken(c, mulMat(c, transposed(c, b.v), b.weights))
		if all != nil {
			y = c.Concat(y, all, 2)
		}
		all = y
	})
	return all
}

// AttentionGrad computes the weights again, and from them
//
//	dV = dY·Pᵀ, dP = Vᵀ·dY, dS = P ⊙ (dP − Σ P⊙dP) · scale, dQ = K·dS, dK = Q·dSᵀ
//
// What is left of 1 by the weights is that of a sink, whose own dP is 0.
func (stock) AttentionGrad(c *ggml.Context, dy *ggml.Tensor, a AttentionOperands) (all AttentionGrads) {
	groups, n := a.K.Dim(1), a.K.Dim(2)
	scoreBlocks(c, a, func(b *scoreBlock) {
		d := byHead(c, dy, b.from, b.to)
		dp := mulMat(c, b.v, d)
		mean := c.SumRows(c.Mul(b.weights, dp))
		ds := c.Mul(b.weights, c.Sub(dp, mean))
		ds = c.Scale(ds, a.Scale)
		if b.bent != nil {
			ds = c.Mul(ds, c.ScaleBias(c.Sqr(b.bent), -1, 1))
		}
		if a.Scores.Sinks != nil {
			all.Sinks = addSinks(c, all.Sinks, c.Mul(c.ScaleBias(c.SumRows(b.weights), 1, -1), mean))
		}

		part := byToken(c, mulMat(c, transposed(c, b.k), ds))
		if all.Q != nil {
			part = c.Concat(part, all.Q, 2)
		}
		all.Q = part
		all.K = addKeys(c, all.K, keysGrad(c, b.q, ds, groups), n)
		all.V = addKeys(c, all.V, keysGrad(c, d, b.weights, groups), n)
	})
	return all
}

// addSinks adds the gradients of a block's queries [1, n, heads, batch] to those of the sinks of
// all [heads].
func addSinks(c *ggml.Context, all, part *ggml.Tensor) *ggml.Tensor {
	n, heads, batch := part.Dim(1), part.Dim(2), part.Dim(3)
	ofHeads := c.Reshape(c.SumRows(c.Reshape(part, n, heads, batch)), heads, batch)
	part = c.Reshape(c.SumRows(transposed(c, ofHeads)), heads)
	if all != nil {
		part = c.Add(all, part)
	}
	return part
}

// keysGrad returns Σ x ⊗ s over the queries of all heads that share a key, for
// x [size, n, heads, batch] and s [keys, n, heads, batch] → [size, kv heads, keys, batch].
func keysGrad(c *ggml.Context, x, s *ggml.Tensor, groups int64) *ggml.Tensor {
	rows := func(t *ggml.Tensor) *ggml.Tensor {
		return c.Reshape(t, t.Dim(0), t.Dim(1)*t.Dim(2)/groups, groups, t.Dim(3))
	}
	return byToken(c, mulMat(c, transposed(c, rows(x)), transposed(c, rows(s))))
}

// addKeys adds the gradients of the first keys to those of all n; nil all begins with
// the last block, which has them all.
func addKeys(c *ggml.Context, all, part *ggml.Tensor, n int64) *ggml.Tensor {
	if part.Dim(2) == n {
		return part
	}
	return c.AccInPlace(all, part, [3]int64{all.Stride(1), all.Stride(2), all.Stride(3)}, 0)
}
