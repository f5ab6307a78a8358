package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// deltaChunks are the chunks of the delta rule. Their states are transposed, [size of k, size of v, chunks·rows, heads].
type deltaChunks struct {
	tokenChunks
	q, k, v *ggml.Tensor
	read    *ggml.Tensor // keys that read; k if they also write
	beta    *ggml.Tensor
	by      deltaDecay

	kk     *ggml.Tensor // K·Readᵀ ⊙ decay, [earlier, later, …]
	seen   *ggml.Tensor // K·Qᵀ ⊙ decay, lower triangle with the diagonal
	solve  *ggml.Tensor // (I + tril(β ⊙ kk, −1))⁻¹
	fresh  *ggml.Tensor // values that tokens write with a state of zero, [size of v, chunk, …]
	reads  *ggml.Tensor // keys by which tokens read the state before the chunk, [size of k, chunk, …]
	kLeft  *ggml.Tensor // keys times left
	added  *ggml.Tensor // values that tokens write: fresh − state·reads, [size of v, chunk, …]
	states *ggml.Tensor // state before each chunk
}

// A deltaDecay is how states decay: whole heads by headDecay, or each channel of a key by channelDecay.
type deltaDecay interface {
	// products returns K·Readᵀ ⊙ decay and K·Qᵀ ⊙ decay, [earlier, later, …]; the upper triangles mean nothing.
	products() (kk, kq *ggml.Tensor)
	// productGrads returns the gradients that flow from the gradients of the products to their operands.
	productGrads(t *Tape, dKK, dKQ *ggml.Tensor) deltaProductGrads
	// perDecay returns x ⊙ y [size, chunk, …], summed over the channels that share a decay.
	perDecay(x, y *ggml.Tensor) *ggml.Tensor
	// gradOfG returns the gradient of G, given the gradients of log gamma and log left.
	gradOfG(b *deltaBack, d deltaProductGrads, gamma, left *ggml.Tensor) *ggml.Tensor
}

// deltaChunks computes the rule.
func (t *Tape) deltaChunks(d DeltaRule) *deltaChunks {
	heads := d.V.T.Dim(1)
	f := &deltaChunks{tokenChunks: newChunks(t.C, d.V.T.Dim(2), d.Rows, d.Chunk)}
	f.steps = max(1, d.Steps)
	if d.byChannel() {
		f.by = f.channelDecay(t, d)
	} else {
		f.decays(t, f.numbers(d.G), d.Packed)
		f.by = headDecay{f}
	}
	f.q, f.k = f.share(f.split(d.Q.T), heads), f.share(f.split(d.K.T), heads)
	f.v, f.beta, f.read = f.split(d.V.T), f.numbers(d.Beta), f.k
	if d.Read != nil {
		f.read = f.share(f.split(d.Read.T), heads)
	}
	f.inside()
	f.across()
	return f
}

// share repeats x of key heads for all value heads.
func (f *deltaChunks) share(x *ggml.Tensor, heads int64) *ggml.Tensor {
	if x.Dim(3) == heads {
		return x
	}
	return f.c.Repeat(x, x.Dim(0), x.Dim(1), x.Dim(2), heads)
}

// unshare sums over the heads that share a key head: the gradient of share.
func (f *deltaChunks) unshare(x *ggml.Tensor, kHeads int64) *ggml.Tensor {
	if x.Dim(3) == kHeads { // also of a failed op's tensor, which has no heads
		return contiguous(f.c, x)
	}
	a, b, n := x.Dim(0), x.Dim(1), x.Dim(2)
	sum := sumMiddle(f.c, f.c.Reshape(contiguous(f.c, x), a*b*n*kHeads, x.Dim(3)/kHeads, 1))
	return f.c.Reshape(sum, a, b, n, kHeads)
}

// inside computes everything within chunks that needs no state.
func (f *deltaChunks) inside() {
	c, chunk := f.c, f.k.Dim(1)
	f.kk, f.seen = f.by.products()
	earlier := c.Tri(c.Mul(f.kk, f.beta), ggml.Lower)
	one := c.Diag(c.ScaleBias(c.Arange(0, float32(chunk), 1), 0, 1))
	f.solve = c.SolveTri(c.Add(earlier, one), c.Repeat(one, f.kk.Shape()...))
	f.fresh = mulMat(c, transposed(c, c.Mul(f.v, f.beta)), f.solve)
	f.reads = mulMat(c, transposed(c, c.Mul(f.read, c.Mul(f.gamma, f.beta))), f.solve)
	f.kLeft = c.Mul(f.k, f.left)
	f.seen = c.Tri(f.seen, ggml.LowerDiag)
}

// across computes the states from chunk to chunk.
func (f *deltaChunks) across() {
	c, left := f.c, transposed(f.c, f.kLeft)
	var added, states []*ggml.Tensor
	var state *ggml.Tensor
	for i := range f.count {
		add := f.at(f.fresh, i)
		if state != nil {
			add = c.Sub(add, mulMat(c, state, f.at(f.reads, i)))
		}
		next := mulMat(c, f.at(left, i), transposed(c, add))
		if state == nil {
			states = append(states, c.Fill(next, 0))
		} else {
			states, next = append(states, state), c.Add(c.Mul(state, f.at(f.total, i)), next)
		}
		added, state = append(added, add), next
	}
	f.added, f.states = f.stack(added), f.stack(states)
}

// output is y [size, chunk, …].
func (f *deltaChunks) output() *ggml.Tensor {
	c := f.c
	y := c.Add(mulMat(c, f.states, c.Mul(f.q, f.gamma)), mulMat(c, transposed(c, f.added), f.seen))
	return c.Scale(y, f.scale())
}

func (f *deltaChunks) scale() float32 { return float32(1 / math.Sqrt(float64(f.k.Dim(0)))) }
