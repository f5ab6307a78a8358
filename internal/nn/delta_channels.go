package nn

import (
	"math/bits"

	"github.com/goggml/ggml"
)

// In Kimi delta attention (arXiv 2510.26692) each channel of a key has its own decay. The products of earlier and later tokens,
// Σ_i k_i·q_i·decay_i, are matrix products across the middle of a block of tokens: keys of its first half are multiplied by
// the decay from their token to the middle, keys and queries of its second half by the decay from the middle to their
// token. All decays are at most 1, so none overflows. Each half is a block in turn, down to single tokens.

// channelDecay is the decay of Kimi delta attention.
type channelDecay struct {
	*deltaChunks
	rates *ggml.Tensor // logarithms of decays, [size of k, chunk, …]
	same  *ggml.Tensor // 1 between tokens of a sample, [earlier, later, chunks·rows]; nil: a row has one sample
}

// channelSums holds the sums of log decays within blocks of length tokens, in the memory order of [size, chunk,
// chunks·rows, heads].
type channelSums struct {
	f      *channelDecay
	length int64
	until  *ggml.Tensor // from the start of the block to the token
	after  *ggml.Tensor // after the token to the end of the block
}

// channelSums returns the sums of blocks of one token.
func (f *channelDecay) channelSums() *channelSums {
	return &channelSums{f, 1, f.rates, f.c.Fill(f.rates, 0)}
}

// double joins pairs of blocks.
func (s *channelSums) double() {
	c, until, after := s.f.c, s.f.halves(s.until, s.length), s.f.halves(s.after, s.length)
	total := func(until *ggml.Tensor) *ggml.Tensor { return lastToken(c, until) }
	s.until = c.Concat(until[0], c.Add(until[1], total(until[0])), 1)
	s.after = c.Concat(c.Add(after[0], total(until[1])), after[1], 1)
	s.length *= 2
}

// roundLength rounds the length of chunks up to a power of two.
func (f *tokenChunks) roundLength() {
	f.length = 1 << bits.Len64(uint64(f.length-1))
	f.count = max(1, (f.n/f.rows+f.length-1)/f.length)
}

// channelDecay rounds the length of chunks, and computes gamma, left and total.
func (f *deltaChunks) channelDecay(t *Tape, d DeltaRule) *channelDecay {
	f.roundLength()
	by := &channelDecay{deltaChunks: f, rates: f.split(d.G.T)}
	c, s := f.c, by.channelSums()
	for s.length < f.length {
		s.double()
	}
	f.gamma = c.Exp(c.Reshape(s.until, by.rates.Shape()...))
	f.left = c.Exp(c.Reshape(s.after, by.rates.Shape()...))
	if d.Packed {
		same, since := f.samples(t)
		by.same, f.gamma, f.left = same, c.Mul(f.gamma, since), c.Mul(f.left, f.ofLast(same))
	}
	f.total = c.Cont(lastToken(c, f.gamma))
	return by
}

// lastToken returns a view of the last token's vectors, [size, tokens, …] → [size, 1, …].
func lastToken(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.View(x, []int64{x.Dim(0), 1, x.Dim(2), x.Dim(3)}, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, (x.Dim(1)-1)*x.Stride(1))
}

// halves returns views of the first and the second halves of blocks of 2·length tokens, [size, length, blocks,
// chunks·rows·heads]; x has the memory order of [size, chunk, chunks·rows, heads].
func (f *deltaChunks) halves(x *ggml.Tensor, length int64) (views [2]*ggml.Tensor) {
	token := x.Dim(0) * x.Type().BlockBytes()
	ne := []int64{x.Dim(0), length, f.length / (2 * length), x.NumElements() / max(1, x.Dim(0)*f.length)}
	for i := range views {
		views[i] = f.c.View(x, ne, []int64{token, 2 * length * token, f.length * token}, int64(i)*length*token)
	}
	return views
}

func (f *channelDecay) products() (kk, kq *ggml.Tensor) {
	c := f.c
	single := func(x *ggml.Tensor) *ggml.Tensor {
		return c.Reshape(c.SumRows(c.Mul(f.k, x)), 1, 1, f.length, x.Dim(2)*x.Dim(3))
	}
	kk, kq = single(f.read), single(f.q)
	for s := f.channelSums(); s.length < f.length; s.double() {
		m := f.acrossMiddle(s)
		all := mulMat(c, m.earlier, m.later)
		kk = f.joinProducts(kk, f.stacked(all, 0))
		kq = f.joinProducts(kq, f.stacked(all, 1))
	}
	shape := []int64{f.length, f.length, f.k.Dim(2), f.k.Dim(3)}
	return f.sameSample(c.Reshape(kk, shape...)), f.sameSample(c.Reshape(kq, shape...))
}

// channelMiddle holds the two factors of the products across the middle of blocks of 2·length tokens.
type channelMiddle struct {
	earlier *ggml.Tensor // keys of the first halves, decayed to the middle, [size, length, blocks, chunks·rows·heads]
	later   *ggml.Tensor // reading keys and then queries of the second halves, decayed from the middle, [size, 2·length, blocks, …]

	toMiddle, fromMiddle *ggml.Tensor // these decays, [size, length, blocks, …]
}

func (f *channelDecay) acrossMiddle(s *channelSums) channelMiddle {
	c, k, read, q := f.c, f.halves(f.k, s.length), f.halves(f.read, s.length), f.halves(f.q, s.length)
	to, from := c.Exp(c.Cont(f.halves(s.after, s.length)[0])), c.Exp(c.Cont(f.halves(s.until, s.length)[1]))
	return channelMiddle{c.Mul(to, k[0]), c.Concat(c.Mul(from, read[1]), c.Mul(from, q[1]), 1), to, from}
}

// stacked returns a view of one of the two tensors that x stacks along its tokens.
func (f *deltaChunks) stacked(x *ggml.Tensor, i int64) *ggml.Tensor {
	half := x.Dim(1) / 2
	return f.c.View(x, []int64{x.Dim(0), half, x.Dim(2), x.Dim(3)}, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, i*half*x.Stride(1))
}

// joinProducts joins the products within halves [length, length, 2·blocks, …] with the products across the middle
// [length, length, blocks, …] to products [2·length, 2·length, blocks, …] of whole blocks.
func (f *deltaChunks) joinProducts(within, across *ggml.Tensor) *ggml.Tensor {
	c, length := f.c, within.Dim(0)
	half := func(i int64) *ggml.Tensor {
		return c.View(within, []int64{length, length, within.Dim(2) / 2, within.Dim(3)}, []int64{within.Stride(1), 2 * within.Stride(2), within.Stride(3)}, i*within.Stride(2))
	}
	first := c.Cont(half(0))
	return c.Concat(c.Concat(first, c.Fill(first, 0), 0), c.Concat(across, half(1), 0), 1)
}

func (f *channelDecay) productGrads(t *Tape, dKK, dKQ *ggml.Tensor) deltaProductGrads {
	c := f.c
	dKK, dKQ = f.sameSample(dKK), f.sameSample(dKQ)
	own := func(x, d *ggml.Tensor) *ggml.Tensor { // of each token with itself
		d = f.blocks(d, 1, 0)
		return c.Mul(c.Reshape(x, x.Dim(0), 1, d.Dim(2), d.Dim(3)), d)
	}
	dLater, dQ := own(f.k, dKK), own(f.k, dKQ)
	dEarlier := c.Add(own(f.read, dKK), own(f.q, dKQ))
	for s := f.channelSums(); s.length < f.length; s.double() {
		m := f.acrossMiddle(s)
		d := c.Concat(f.blocks(dKK, s.length, s.length), f.blocks(dKQ, s.length, s.length), 1) // [first, 2·second, blocks, …]
		dStack := mulMat(c, f.transposed(m.earlier), d)
		add := func(to, x *ggml.Tensor, half int) *ggml.Tensor {
			of := f.halves(to, s.length)
			of[half] = c.Add(of[half], x)
			return c.Concat(of[0], of[1], 1)
		}
		dLater = add(dLater, c.Mul(f.stacked(dStack, 0), m.fromMiddle), 1)
		dQ = add(dQ, c.Mul(f.stacked(dStack, 1), m.fromMiddle), 1)
		dEarlier = add(dEarlier, c.Mul(mulMat(c, f.transposed(m.later), f.transposed(d)), m.toMiddle), 0)
		for _, x := range []*ggml.Tensor{dLater, dQ, dEarlier} {
			t.Graph.Expand(x) // so that the tensors of this length are freed before the next
		}
	}
	shape := f.k.Shape()
	return deltaProductGrads{dKK, dKQ, c.Reshape(dLater, shape...), c.Reshape(dQ, shape...), c.Reshape(dEarlier, shape...)}
}

// blocks returns square blocks of x [earlier, later, chunks·rows, heads], [length, length, blocks, chunks·rows·heads]: on the
// diagonal, or with later tokens that follow by `below`.
func (f *deltaChunks) blocks(x *ggml.Tensor, length, below int64) *ggml.Tensor {
	step := length + below
	ne := []int64{length, length, f.length / step, x.Dim(2) * x.Dim(3)}
	return f.c.Cont(f.c.View(x, ne, []int64{x.Stride(1), step * (x.Stride(0) + x.Stride(1)), x.Stride(2)}, below*x.Stride(1)))
}

func (f *channelDecay) sameSample(x *ggml.Tensor) *ggml.Tensor {
	if f.same == nil {
		return x
	}
	return f.c.Mul(x, f.same)
}

func (f *channelDecay) perDecay(x, y *ggml.Tensor) *ggml.Tensor { return f.c.Mul(x, y) }

func (f *channelDecay) gradOfG(b *deltaBack, d deltaProductGrads, gamma, left *ggml.Tensor) *ggml.Tensor {
	c := f.c
	sums := c.Add(gamma, c.Sub(c.Add(c.Mul(f.read, d.later), c.Mul(f.q, d.q)), c.Mul(f.k, d.earlier))) // since the start of the chunk
	total := c.SumRows(f.transposed(c.Mul(b.dNext, f.states)))                                         // [1, size, …]
	line := f.transposed(c.Sub(sums, left))                                                            // [chunk, size, …]
	after := c.Add(c.Sub(c.Repeat(c.SumRows(line), line.Shape()...), c.CumSum(line)), line)
	atEnd := c.Add(c.SumRows(f.transposed(left)), f.along(c.Mul(f.along(total), f.total)))
	return f.merge(f.transposed(c.Add(after, atEnd)))
}
