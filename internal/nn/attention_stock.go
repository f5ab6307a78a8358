package nn

import "github.com/goggml/ggml"

// queryBlock is the number of queries whose scores exist at a time.
const queryBlock = 512

// masked is what the scores of keys that a query does not see are lowered by: their
// weights are 0 then, and no infinity meets another.
const masked = 1e30

// VisibleType is F32, in which masks are computed.
func (stock) VisibleType() ggml.Type { return ggml.F32 }

// A scoreBlock is the attention of the queries [from, to) to the keys before to, or to all.
type scoreBlock struct {
	from, to int64
	q, k, v  *ggml.Tensor // [size, n, heads, batch], [size, keys, kv heads, batch] each
	bent     *ggml.Tensor // scores between −1 and 1, where there is a softcap
	weights  *ggml.Tensor // [keys, n, heads, batch]
}

// scoreBlocks calls f for each block, the last one first: it needs most memory, where
// the others then fit.
func scoreBlocks(c *ggml.Context, a AttentionOperands, f func(b *scoreBlock)) {
	for to := a.Q.Dim(2); to > 0; {
		from, keys := (to-1)/queryBlock*queryBlock, to
		if a.Bidirectional {
			keys = a.K.Dim(2)
		}
		b := &scoreBlock{from: from, to: to, q: byHead(c, a.Q, from, to), k: byHead(c, a.K, 0, keys), v: byHead(c, a.V, 0, keys)}
		scores, scale := mulMat(c, b.k, b.q), a.Scale
		if limit := a.Scores.Softcap; limit != 0 {
			b.bent = c.Tanh(c.Scale(scores, scale/limit))
			scores, scale = b.bent, limit
		}
		b.weights = c.SoftMaxExt(scores, ggml.SoftMaxOptions{Mask: mask(c, a, from, to, keys), Scale: scale, MaxBias: a.Scores.MaxBias, Sinks: a.Scores.Sinks})
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

// mask [keys, n, 1, batch] is 0 where a query sees a key, for ALiBi less their distance, and very
// low where not; nil where all see all.
func mask(c *ggml.Context, a AttentionOperands, from, to, n int64) *ggml.Tensor {
	keys := c.Arange(0, float32(n), 1)
	var hidden *ggml.Tensor
	if !a.Bidirectional {
		queries := c.Repeat(c.Reshape(c.Arange(float32(from), float32(to), 1), 1, to-from), n, to-from)
		distance := c.Sub(queries, keys)
		hidden = hide(c, nil, distance, masked) // keys after the query
		if a.Scores.MaxBias != 0 {
			hidden = c.Sub(hidden, distance)
		}
	}
	if a.FirstVisible != nil {
		hidden = hide(c, hidden, c.Sub(keyOf(c, a.FirstVisible, from, to, n), keys), -masked)
	}
	if a.LastVisible != nil {
		hidden = hide(c, hidden, c.Sub(keyOf(c, a.LastVisible, from, to, n), keys), masked)
	}
	return hidden
}

// keyOf is a key of each query of a block, [keys, n, 1, batch], from that of all [n, batch].
func keyOf(c *ggml.Context, visible *ggml.Tensor, from, to, keys int64) *ggml.Tensor {
	n, batch := to-from, visible.Dim(1)
	part := c.View(visible, []int64{1, n, 1, batch}, []int64{visible.Stride(0), visible.Stride(1), visible.Stride(1)}, from*visible.Stride(0))
	return c.Repeat(c.Cont(part), keys, n, 1, batch)
}

// hide hides more keys: those whose distance is of the other sign than the factor.
func hide(c *ggml.Context, hidden, distance *ggml.Tensor, factor float32) *ggml.Tensor {
	more := c.Clamp(c.Scale(distance, factor), -masked, 0)
	if hidden == nil {
		return more
	}
	return c.Add(more, hidden)
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
	groups := a.K.Dim(1)
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
		all.K = addKeys(c, all.K, keysGrad(c, b.q, ds, groups))
		all.V = addKeys(c, all.V, keysGrad(c, d, b.weights, groups))
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

// addKeys adds the gradients of the first keys to those of all; nil all begins with
// the last block, which has them all.
func addKeys(c *ggml.Context, all, part *ggml.Tensor) *ggml.Tensor {
	if all == nil {
		return part
	}
	return c.AccInPlace(all, part, [3]int64{all.Stride(1), all.Stride(2), all.Stride(3)}, 0)
}
