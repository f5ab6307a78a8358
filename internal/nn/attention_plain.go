package nn

import (
	"math/bits"

	"github.com/goggml/ggml"
)

// queryBlock returns the number of queries whose scores exist at a time. Half of the scores of a
// block's own keys are masked, so the work that a block of r queries wastes grows with r; the time that
// starting ops takes grows with 1/r. The best r is a root of the ratio of both, smaller with more heads
// at a time. It is bounded because scores are most of the memory of long sequences.
func queryBlock(a AttentionOperands) int64 {
	const least, most = 128, 512
	const balance, elements = 1 << 23, 1 << 26
	switch {
	case a.Chosen != nil || a.pools != nil:
		return chosenBlock
	case a.Bidirectional:
		return most // nothing is masked
	}
	keys, heads := max(1, a.Q.Dim(2)), max(1, a.Q.Dim(1)*a.Q.Dim(3)) // 0 if an op failed
	if a.Window != 0 {
		keys = min(keys, a.Window+most)
	}
	block := min(powerOf2(balance/heads, 2), powerOf2(elements/(keys*heads), 1))
	return min(most, max(least, block))
}

// powerOf2 returns the largest power of two p with pⁿ ≤ x, at least 1.
func powerOf2(x int64, n int) int64 { return 1 << (max(0, bits.Len64(uint64(x))-1) / n) }

// A scoreBlock is the attention of the queries [from, to) to the keys [first, end).
type scoreBlock struct {
	from, to, first, end int64
	pools                int64        // number of pools behind the keys
	q, k, v              *ggml.Tensor // [size, n, heads, batch], [size, keys, kv heads, batch] each
	bent                 *ggml.Tensor // tanh of the scores, with a softcap
	weights              *ggml.Tensor // [keys, n, heads, batch]
}

// scoreBlocks calls f for each block, the last one first: it needs most memory, and the
// others then fit into it.
func scoreBlocks(t *Tape, a AttentionOperands, f func(b *scoreBlock)) {
	c := t.C
	n, block := a.Q.Dim(2), queryBlock(a)
	k, v := byHead(c, a.K, 0, n), byHead(c, a.V, 0, n)
	for to := n; to > 0; {
		b := &scoreBlock{from: (to - 1) / block * block, to: to, end: to}
		switch {
		case a.Bidirectional:
			b.end = n
		case a.Window != 0:
			b.first = max(0, b.from-a.Window+1)
		}
		b.q, b.k, b.v = byHead(c, a.Q, b.from, to), keysFrom(c, k, b.first, b.end), keysFrom(c, v, b.first, b.end)
		mask := a.pools.addPools(t, b, mask(t, a, b, block))
		scores, scale := mulMat(c, b.k, b.q), a.Scale
		if limit := a.Scores.Softcap; limit != 0 {
			b.bent = c.Tanh(c.Scale(scores, scale/limit))
			scores, scale = b.bent, limit
		}
		b.weights = c.SoftMaxExt(scores, ggml.SoftMaxOptions{Mask: mask, Scale: scale, MaxBias: a.Scores.MaxBias, Sinks: a.Scores.Sinks})
		f(b)
		to = b.from
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

// keysFrom returns a view of the tokens [first, end) of x [size, tokens, heads, batch].
func keysFrom(c *ggml.Context, x *ggml.Tensor, first, end int64) *ggml.Tensor {
	if first == 0 && end == x.Dim(1) {
		return x
	}
	return c.View(x, []int64{x.Dim(0), end - first, x.Dim(2), x.Dim(3)}, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, first*x.Stride(1))
}

// plainAttention goes through blocks of queries.
func plainAttention(t *Tape, a AttentionOperands) Result[AttentionGrads] {
	all := blockRows{c: t.C, like: a.Q}
	scoreBlocks(t, a, func(b *scoreBlock) { all.put(b.from, MulTransposed.Build(t, PairOperands{b.v, b.weights})) })
	return Result[AttentionGrads]{byToken(t.C, all.x), func(dy *ggml.Tensor) AttentionGrads { return attentionGrads(t, dy, a) }}
}

// attentionGrads recomputes the weights P, and from them
//
//	dV = dY·Pᵀ, dP = Vᵀ·dY, dS = P ⊙ (dP − Σ P⊙dP) · scale, dQ = K·dS, dK = Q·dSᵀ
//
// The weight of a sink is 1 − ΣP; its dP is 0.
func attentionGrads(t *Tape, dy *ggml.Tensor, a AttentionOperands) AttentionGrads {
	c, groups := t.C, a.K.Dim(1)
	q, k, v := blockRows{c: c, like: dy}, blockRows{c: c, like: a.K}, blockRows{c: c, like: a.V}
	pools := blockRows{c: c}
	if a.pools != nil {
		pools.like = a.pools.k
	}
	var sinks *ggml.Tensor
	scoreBlocks(t, a, func(b *scoreBlock) {
		d := byHead(c, dy, b.from, b.to)
		dp := mulMat(c, b.v, d)
		ds := SoftMaxGrad.Build(t, SoftMaxOperands{dp, b.weights, a.Scale})
		if b.bent != nil {
			ds = c.Mul(ds, c.ScaleBias(c.Sqr(b.bent), -1, 1))
		}
		if a.Scores.Sinks != nil {
			mean := c.SumRows(c.Mul(b.weights, dp))
			sinks = addSinks(c, sinks, c.Mul(c.ScaleBias(c.SumRows(b.weights), 1, -1), mean))
		}
		q.put(b.from, MulTransposed.Build(t, PairOperands{b.k, ds}))
		k.add(b.first, b.split(c, keysGrad(t, b.q, ds, groups), &pools))
		v.add(b.first, b.split(c, keysGrad(t, d, b.weights, groups), &pools))
	})
	grads := AttentionGrads{Q: byToken(c, q.x), K: byToken(c, k.x), V: byToken(c, v.x), Sinks: sinks}
	if pools.x != nil {
		grads.pools = byToken(c, pools.x)
	}
	return grads
}

// SoftMaxOperands are the weights, their gradient Dp, and the scale of the scores.
type SoftMaxOperands struct {
	Dp, Weights *ggml.Tensor
	Scale       float32
}

// SoftMaxGrad is the gradient of the scores, given the gradient Dp of the weights, the softmax of the scaled scores.
var SoftMaxGrad = &Op[SoftMaxOperands, *ggml.Tensor]{func(t *Tape, o SoftMaxOperands) *ggml.Tensor {
	c := t.C
	mean := c.SumRows(c.Mul(o.Weights, o.Dp))
	return c.Scale(c.Mul(o.Weights, c.Sub(o.Dp, mean)), o.Scale)
}}

// addSinks adds the gradients from a block's queries [1, n, heads, batch] to the gradient of the
// sinks [heads].
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
// x [size, n, heads, batch] and s [keys, n, heads, batch] → [size, keys, kv heads, batch].
func keysGrad(t *Tape, x, y *ggml.Tensor, groups int64) *ggml.Tensor {
	rows := func(x *ggml.Tensor) *ggml.Tensor {
		return t.C.Reshape(x, x.Dim(0), x.Dim(1)*x.Dim(2)/max(1, groups), groups, x.Dim(3))
	}
	return OuterProducts.Build(t, PairOperands{rows(x), rows(y)})
}

// blockRows joins blocks [size, tokens, heads, batch], given from the last to the first, to x of all
// tokens. like has the dimensions of x, [size, heads, n, batch].
type blockRows struct {
	c       *ggml.Context
	like, x *ggml.Tensor
}

// put writes a block that begins at a token.
func (r *blockRows) put(from int64, part *ggml.Tensor) {
	if r.isAll(part) {
		r.x = part
		return
	}
	r.begin()
	r.x = r.c.SetInPlace(r.x, part, [3]int64{r.x.Stride(1), r.x.Stride(2), r.x.Stride(3)}, from*r.x.Stride(1))
}

// add adds a block that begins at a token.
func (r *blockRows) add(from int64, part *ggml.Tensor) {
	if r.x == nil && r.isAll(part) {
		r.x = part
		return
	}
	r.begin()
	r.x = r.c.AccInPlace(r.x, part, [3]int64{r.x.Stride(1), r.x.Stride(2), r.x.Stride(3)}, from*r.x.Stride(1))
}

func (r *blockRows) isAll(part *ggml.Tensor) bool { return part.Dim(1) == r.like.Dim(2) }

func (r *blockRows) begin() {
	if r.x == nil {
		l := contiguous(r.c, r.like)
		r.x = r.c.Fill(r.c.Reshape(l, l.Dim(0), l.Dim(2), l.Dim(1), l.Dim(3)), 0)
	}
}
