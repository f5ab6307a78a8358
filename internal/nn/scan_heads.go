package nn

import "github.com/goggml/ggml"

// headScan is a selective scan whose states decay by a number for each head, g [1, heads, n] its logarithm, of x
// [size, heads, n] times Δ: by chunks (state space duality, arXiv 2405.21060).
func (t *Tape) headScan(s Scan, x, g *Value) *Value {
	f := t.scanChunks(s, x, g)
	y := f.merge(f.output())
	return t.Op(y, func(dy *ggml.Tensor) []*ggml.Tensor {
		f := t.scanChunks(s, x, g) // again
		return f.grads(f.split(dy), g.T.Shape())
	}, x, g, s.B, s.C)
}

// scanChunks are the chunks of a selective scan. B and C have groups of heads in the place of heads.
type scanChunks struct {
	tokenChunks
	x, b, q *ggml.Tensor // q is C

	read   *ggml.Tensor // B·C of earlier and later tokens, [earlier, later, chunks·rows, groups]
	seen   *ggml.Tensor // of tokens up to their own, decayed, [earlier, later, chunks·rows, heads]
	left   *ggml.Tensor // x of what is left at the end of a chunk
	states *ggml.Tensor // before each chunk, [d, size, chunks·rows, heads]
}

// scanChunks computes the scan.
func (t *Tape) scanChunks(s Scan, x, g *Value) *scanChunks {
	f := &scanChunks{tokenChunks: newChunks(t.C, x.T.Dim(2), s.Rows, s.Chunk)}
	f.x, f.b, f.q = f.split(x.T), f.split(s.B.T), f.split(s.C.T)
	f.decays(t, f.numbers(g), s.Packed)
	c := f.c
	f.read = mulMat(c, f.b, f.q)
	f.seen = c.Tri(f.mulGroups(f.decay, f.read), ggml.LowerDiag)
	f.left = c.Mul(f.x, f.tokenChunks.left)
	f.across(mulMat(c, f.transposed(f.b), f.transposed(f.left)))
	return f
}

// across computes the state before each chunk. added [d, size, chunks·rows, heads] is what each chunk adds to it.
func (f *scanChunks) across(added *ggml.Tensor) {
	c := f.c
	var states []*ggml.Tensor
	state := c.Fill(c.Cont(f.at(added, 0)), 0)
	for i := range f.count {
		states = append(states, state)
		state = c.Add(c.Mul(state, f.at(f.total, i)), f.at(added, i))
	}
	f.states = f.stack(states)
}

// output is y [size, chunk, …].
func (f *scanChunks) output() *ggml.Tensor {
	return f.c.Add(mulMat(f.c, f.transposed(f.x), f.seen), f.c.Mul(f.ofStates(), f.gamma))
}

// ofStates is what tokens read of the states before their chunk [size, chunk, …], were all of these left.
func (f *scanChunks) ofStates() *ggml.Tensor { return f.transposed(mulMat(f.c, f.q, f.states)) }

// grads returns the gradients of x, g, B and C, given the gradient of y [size, chunk, …].
func (f *scanChunks) grads(dy *ggml.Tensor, numbers []int64) []*ggml.Tensor {
	c := f.c
	perToken := func(x, y *ggml.Tensor) *ggml.Tensor { return c.SumRows(c.Mul(x, y)) }

	// What tokens read of the states before their chunk.
	dRead := c.Mul(dy, f.gamma)
	dGamma := perToken(dRead, f.ofStates()) // of its logarithm
	dq := f.sumGroups(mulMat(c, f.transposed(f.states), dRead))
	next := f.acrossBack(mulMat(c, f.transposed(f.q), f.transposed(dRead)))

	// What they leave at its end.
	dLeft := f.transposed(mulMat(c, f.b, next))
	dx := c.Mul(dLeft, f.tokenChunks.left)
	db := f.sumGroups(mulMat(c, f.transposed(next), f.left))

	// What they read of tokens of their chunk.
	dSeen := c.Tri(mulMat(c, f.x, dy), ggml.LowerDiag)
	dx = c.Add(dx, mulMat(c, f.transposed(dy), f.transposed(f.seen)))
	dProducts := f.sumGroups(c.Mul(dSeen, f.decay))
	dq = c.Add(dq, mulMat(c, f.transposed(f.b), dProducts))
	db = c.Add(db, mulMat(c, f.transposed(f.q), f.transposed(dProducts)))

	dg := f.decayGrads(c.Mul(dSeen, f.seen), dGamma, perToken(dLeft, f.left), f.totalGrad(f.states, next))
	return []*ggml.Tensor{f.merge(dx), c.Reshape(f.mergeNumbers(dg), numbers...), f.merge(db), f.merge(dq)}
}

// acrossBack goes from the last chunk to the first. It returns the gradients of the states behind each, given those
// that flow to the states before each from its tokens.
func (f *scanChunks) acrossBack(dStates *ggml.Tensor) *ggml.Tensor {
	c, list := f.c, make([]*ggml.Tensor, f.count)
	next := c.Fill(c.Cont(f.at(dStates, 0)), 0)
	for i := f.count - 1; i >= 0; i-- {
		list[i] = next
		next = c.Add(c.Mul(next, f.at(f.total, i)), f.at(dStates, i))
	}
	return f.stack(list)
}

// mulGroups multiplies x [a, b, chunks·rows, heads] by what heads of a group share, [a, b, chunks·rows, groups].
func (f *scanChunks) mulGroups(x, shared *ggml.Tensor) *ggml.Tensor {
	c, groups := f.c, max(1, shared.Dim(3)) // 0 of a tensor that stands for a failure
	m := x.Dim(0) * x.Dim(1)
	y := c.Mul(c.Reshape(x, m, x.Dim(2), x.Dim(3)/groups, groups), c.Reshape(shared, m, x.Dim(2), 1, groups))
	return c.Reshape(y, x.Shape()...)
}

// sumGroups adds up x [a, b, chunks·rows, heads] over the heads of each group.
func (f *scanChunks) sumGroups(x *ggml.Tensor) *ggml.Tensor {
	c, groups := f.c, max(1, f.b.Dim(3))
	if x.Dim(3) == groups {
		return x
	}
	m := x.Dim(0) * x.Dim(1) * x.Dim(2)
	return c.Reshape(sumMiddle(c, c.Reshape(x, m, x.Dim(3)/groups, groups)), x.Dim(0), x.Dim(1), x.Dim(2), groups)
}
