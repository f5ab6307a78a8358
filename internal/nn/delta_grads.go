package nn

import "github.com/goggml/ggml"

// deltaGrads returns the gradients of the operands, given the gradient of the result [size, heads, n].
func (t *Tape) deltaGrads(d DeltaRule, dy *ggml.Tensor) []*ggml.Tensor {
	f := t.deltaChunks(d) // again
	dy = f.c.Scale(f.split(dy), f.scale())
	b := &deltaBack{deltaChunks: f}
	b.readsOfStates(dy)
	b.across()
	b.inside(t, dy)
	kHeads := d.K.T.Dim(1)
	grads := []*ggml.Tensor{f.merge(f.unshare(b.dq, kHeads)), f.merge(f.unshare(b.dk, kHeads)), f.merge(b.dv), b.dg, f.mergeNumbers(b.dbeta)}
	if d.Read != nil {
		grads = append(grads, f.merge(f.unshare(b.dread, kHeads)))
	}
	return grads
}

// deltaBack has gradients, each of the shape of what it belongs to.
type deltaBack struct {
	*deltaChunks
	dAdded  *ggml.Tensor
	dStates *ggml.Tensor // of the state before each chunk, but for what later chunks make of it
	dNext   *ggml.Tensor // of the state behind each chunk
	dGamma  *ggml.Tensor

	dq, dk, dread, dv, dg, dbeta *ggml.Tensor
}

// readsOfStates flows from the result to what tokens have added, and to the states that queries have read.
func (b *deltaBack) readsOfStates(dy *ggml.Tensor) {
	c, dyT := b.c, b.transposed(dy)
	b.dAdded = mulMat(c, dyT, b.transposed(b.seen))
	b.dStates = mulMat(c, b.transposed(c.Mul(b.q, b.gamma)), dyT)
	read := mulMat(c, b.transposed(b.states), dy) // the gradient of q·γ
	b.dq = c.Mul(read, b.gamma)
	b.dGamma = b.by.perDecay(read, b.q)
}

// across goes from the last chunk to the first.
func (b *deltaBack) across() {
	c, readsT := b.c, b.transposed(b.reads)
	dAdded, dNext := make([]*ggml.Tensor, b.count), make([]*ggml.Tensor, b.count)
	var next *ggml.Tensor
	for i := b.count - 1; i >= 0; i-- {
		add := b.at(b.dAdded, i)
		if next == nil {
			dNext[i] = c.Fill(c.Cont(b.at(b.states, i)), 0)
		} else {
			dNext[i] = next
			add = c.Add(add, mulMat(c, next, b.at(b.kLeft, i)))
		}
		dAdded[i] = add
		if i == 0 {
			break // the first chunk has no predecessor
		}
		state := c.Sub(b.at(b.dStates, i), mulMat(c, b.at(readsT, i), b.transposed(add)))
		if next != nil {
			state = c.Add(state, c.Mul(next, b.at(b.total, i)))
		}
		next = state
	}
	b.dAdded, b.dNext = b.stack(dAdded), b.stack(dNext)
}

// inside flows to the operands.
func (b *deltaBack) inside(t *Tape, dy *ggml.Tensor) {
	c := b.c
	perToken := func(x, y *ggml.Tensor) *ggml.Tensor { return c.SumRows(c.Mul(x, y)) }

	// What tokens add at the end of their chunk.
	dLeft := mulMat(c, b.transposed(b.dNext), b.added) // the gradient of k·left
	b.dk = c.Mul(dLeft, b.left)
	ended := c.Mul(b.by.perDecay(dLeft, b.k), b.left)

	// Through the triangular system.
	solveT, dAddedT := b.transposed(b.solve), b.transposed(b.dAdded)
	dFresh := mulMat(c, dAddedT, solveT)                         // the gradient of β·v
	dReads := c.Neg(mulMat(c, b.transposed(b.states), b.dAdded)) // of reads
	dKeys := mulMat(c, b.transposed(dReads), solveT)             // of β·γ·read
	system := c.Add(mulMat(c, b.fresh, dFresh), mulMat(c, b.reads, dKeys))
	dSystem := c.Tri(c.Neg(system), ggml.Lower) // of β·k·read, decayed
	b.dv = c.Mul(dFresh, b.beta)
	b.dread = c.Mul(dKeys, c.Mul(b.gamma, b.beta))
	keys := b.by.perDecay(dKeys, b.read)
	b.dbeta = c.Add(c.Add(perToken(dFresh, b.v), c.SumRows(c.Mul(keys, b.gamma))), perToken(dSystem, b.kk))
	b.dGamma = c.Add(b.dGamma, c.Mul(keys, b.beta))

	// Through products of keys with keys and queries.
	dSeen := c.Tri(mulMat(c, b.added, dy), ggml.LowerDiag)
	d := b.by.productGrads(t, c.Mul(dSystem, b.beta), dSeen)
	if b.read == b.k {
		b.dk = c.Add(c.Add(b.dk, b.dread), c.Add(d.later, d.earlier))
	} else {
		b.dk, b.dread = c.Add(b.dk, d.earlier), c.Add(b.dread, d.later)
	}
	b.dq = c.Add(b.dq, d.q)

	// Through what is left of states and tokens.
	b.dg = b.by.gradOfG(b, d, c.Mul(b.dGamma, b.gamma), ended)
}

// deltaProductGrads are the gradients of products of keys with reading keys and queries, and the gradients of reading keys and
// queries as later tokens, and of keys as earlier tokens, to which they flow.
type deltaProductGrads struct{ kk, kq, later, q, earlier *ggml.Tensor }
