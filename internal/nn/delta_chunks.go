package nn

import (
	"cmp"
	"fmt"
	"math"

	"github.com/goggml/ggml"
)

// deltaChunks are the chunks of all rows and heads. Matrices have a row for each token of a chunk, [size, chunk,
// chunks·rows, heads]; numbers of tokens are [1, chunk, chunks·rows, heads]; states are transposed, [size of k, size
// of v, chunks·rows, heads].
type deltaChunks struct {
	c       *ggml.Context
	count   int64 // of a row
	rows    int64
	q, k, v *ggml.Tensor

	beta  *ggml.Tensor
	gamma *ggml.Tensor // how much of the state before its chunk is left at a token
	left  *ggml.Tensor // how much of a token is left at the end of its chunk
	total *ggml.Tensor // how much of the state before a chunk is left at its end, [1, 1, …]
	decay *ggml.Tensor // how much of an earlier token is left at a later one, [earlier, later, …]

	kk     *ggml.Tensor // k·k of earlier and later tokens
	seen   *ggml.Tensor // k·q of tokens up to their own, decayed
	solve  *ggml.Tensor // the inverse of 1 + β·k·k of earlier tokens, decayed
	fresh  *ggml.Tensor // what tokens would add without a state, [size of v, chunk, …]
	reads  *ggml.Tensor // by what they read the state, to take that off
	kLeft  *ggml.Tensor // keys times left
	added  *ggml.Tensor // what tokens add, [size of v, chunk, …]
	states *ggml.Tensor // before each chunk
}

// deltaChunks computes the rule.
func (t *Tape) deltaChunks(d DeltaRule) *deltaChunks {
	c, heads := t.C, d.V.T.Dim(1)
	f := &deltaChunks{c: c, rows: d.Rows}
	f.q, f.k = f.share(d.chunked(c, d.Q.T), heads), f.share(d.chunked(c, d.K.T), heads)
	f.v, f.beta = d.chunked(c, d.V.T), d.chunked(c, d.scalars(c, d.Beta, d.V.T.Dim(2)))
	f.count = max(1, f.v.Dim(2)/d.Rows)
	f.decays(t, d.chunked(c, d.scalars(c, d.G, d.V.T.Dim(2))), d)
	f.inside()
	f.across()
	return f
}

// share repeats x of heads of keys for all heads.
func (f *deltaChunks) share(x *ggml.Tensor, heads int64) *ggml.Tensor {
	if x.Dim(3) == heads {
		return x
	}
	return f.c.Repeat(x, x.Dim(0), x.Dim(1), x.Dim(2), heads)
}

// unshare adds up what share has repeated.
func (f *deltaChunks) unshare(x *ggml.Tensor, kHeads int64) *ggml.Tensor {
	if x.Dim(3) == kHeads { // none, too, of tensors that stand for a failure
		return contiguous(f.c, x)
	}
	a, b, n := x.Dim(0), x.Dim(1), x.Dim(2)
	sum := sumMiddle(f.c, f.c.Reshape(contiguous(f.c, x), a*b*n*kHeads, x.Dim(3)/kHeads, 1))
	return f.c.Reshape(sum, a, b, n, kHeads)
}

// along lays the numbers of a chunk's tokens, [1, chunk, …], side by side: [chunk, 1, …].
func (f *deltaChunks) along(x *ggml.Tensor) *ggml.Tensor {
	return f.c.Reshape(x, x.Dim(1), x.Dim(0), x.Dim(2), x.Dim(3))
}

// last is the number of the last token of each chunk, [1, 1, …], of x [1, chunk, …].
func (f *deltaChunks) last(x *ggml.Tensor) *ggml.Tensor {
	return f.c.Cont(f.c.View(x, []int64{1, 1, x.Dim(2), x.Dim(3)}, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, (x.Dim(1)-1)*x.Stride(1)))
}

// decays computes the products of decays between tokens. Logarithms add up within a chunk; nothing is left across
// the beginning of a sample.
func (f *deltaChunks) decays(t *Tape, g *ggml.Tensor, d DeltaRule) {
	c, chunk := f.c, g.Dim(1)
	sums := c.CumSum(f.along(g)) // [chunk, 1, …]
	square := func(x *ggml.Tensor) *ggml.Tensor { return c.Repeat(x, chunk, chunk, g.Dim(2), g.Dim(3)) }
	later := c.Reshape(sums, 1, chunk, g.Dim(2), g.Dim(3))
	f.decay = c.Exp(c.Tri(c.Sub(square(later), sums), ggml.LowerDiag))
	f.gamma = c.Exp(later)
	f.left = c.Exp(c.Sub(c.Repeat(f.last(later), g.Shape()...), later))
	if d.Packed {
		same, since := f.samples(t, chunk)
		f.decay, f.gamma = c.Mul(f.decay, same), c.Mul(f.gamma, since)
		ofLast := c.View(same, []int64{chunk, 1, same.Dim(2)}, []int64{same.Stride(1), same.Stride(2)}, (chunk-1)*same.Stride(1))
		f.left = c.Mul(f.left, c.Reshape(c.Cont(ofLast), 1, chunk, same.Dim(2)))
	}
	f.total = f.last(f.gamma)
}

// samples returns masks: same is 1 if two tokens of a chunk belong to one sample, [chunk, chunk, chunks·rows]; since
// is 1 if a token's sample began before the chunk, [1, chunk, chunks·rows].
func (f *deltaChunks) samples(t *Tape, chunk int64) (same, since *ggml.Tensor) {
	size, count, all := int(chunk), int(f.count), f.count*f.rows
	// start is the first token of the sample of a token of a chunk; tokens behind the end of a row go on.
	start := func(feed *Feed, of, i int) int {
		row, length := of/count, feed.Length()
		at := min(of%count*size+i, length-1)
		return int(feed.Starts[row*length+at])
	}
	same = Declare(t.Inputs, fmt.Sprintf("tokens of one sample in chunks of %d", chunk), ggml.F32, []int64{chunk, chunk, all}, func(feed *Feed, x []float32) {
		for of := range int(all) {
			for i := range size {
				own := start(feed, of, i)
				for j := range i + 1 {
					if start(feed, of, j) == own {
						x[(of*size+i)*size+j] = 1
					}
				}
			}
		}
	})
	since = Declare(t.Inputs, fmt.Sprintf("samples before chunks of %d", chunk), ggml.F32, []int64{1, chunk, all}, func(feed *Feed, x []float32) {
		for i := range x {
			of := i / size
			if start(feed, of, i%size) < of%count*size {
				x[i] = 1
			}
		}
	})
	return same, since
}

// inside computes what needs no state.
func (f *deltaChunks) inside() {
	c, chunk := f.c, f.k.Dim(1)
	f.kk = mulMat(c, f.k, f.k)
	earlier := c.Tri(c.Mul(c.Mul(f.kk, f.decay), f.beta), ggml.Lower)
	one := c.Diag(c.ScaleBias(c.Arange(0, float32(chunk), 1), 0, 1))
	f.solve = c.SolveTri(c.Add(earlier, one), c.Repeat(one, f.kk.Shape()...))
	f.fresh = mulMat(c, transposed(c, c.Mul(f.v, f.beta)), f.solve)
	f.reads = mulMat(c, transposed(c, c.Mul(f.k, c.Mul(f.beta, f.gamma))), f.solve)
	f.kLeft = c.Mul(f.k, f.left)
	f.seen = c.Tri(c.Mul(mulMat(c, f.k, f.q), f.decay), ggml.LowerDiag)
}

// across goes from chunk to chunk.
func (f *deltaChunks) across() {
	c, left := f.c, transposed(f.c, f.kLeft)
	var added, states []*ggml.Tensor
	var state *ggml.Tensor
	for i := range f.count {
		add := f.chunk(f.fresh, i)
		if state != nil {
			add = c.Sub(add, mulMat(c, state, f.chunk(f.reads, i)))
		}
		next := mulMat(c, f.chunk(left, i), transposed(c, add))
		if state == nil {
			states = append(states, c.Fill(next, 0))
		} else {
			states, next = append(states, state), c.Add(c.Mul(state, f.chunk(f.total, i)), next)
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

// chunk is one of each row, [a, b, rows, heads], of x [a, b, chunks·rows, heads].
func (f *deltaChunks) chunk(x *ggml.Tensor, i int64) *ggml.Tensor {
	if f.count == 1 {
		return x
	}
	return f.c.View(x, []int64{x.Dim(0), x.Dim(1), f.rows, x.Dim(3)}, []int64{x.Stride(1), f.count * x.Stride(2), x.Stride(3)}, i*x.Stride(2))
}

// stack is the inverse of chunk, of all of them.
func (f *deltaChunks) stack(list []*ggml.Tensor) *ggml.Tensor {
	a, b, heads := list[0].Dim(0), list[0].Dim(1), list[0].Dim(3)
	var join func(list []*ggml.Tensor) *ggml.Tensor
	join = func(list []*ggml.Tensor) *ggml.Tensor {
		if len(list) == 1 {
			return f.c.Reshape(contiguous(f.c, list[0]), a, b, 1, f.rows*heads)
		}
		half := len(list) / 2
		return f.c.Concat(join(list[:half]), join(list[half:]), 2)
	}
	return f.c.Reshape(join(list), a, b, f.count*f.rows, heads)
}

// chunked divides x [m, heads, n] into chunks [m, chunk, chunks·rows, heads], with zeros behind the end of a row.
func (d DeltaRule) chunked(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	m, heads, rows := x.Dim(0), x.Dim(1), d.Rows
	length := x.Dim(2) / rows
	chunk := max(1, min(cmp.Or(d.Chunk, deltaChunk), length)) // 0 of a tensor that stands for a failure
	count := (length + chunk - 1) / chunk
	x = c.Cont(c.Permute(c.Reshape(contiguous(c, x), m, heads, length, rows), [4]int{0, 3, 1, 2}))
	if over := count*chunk - length; over > 0 {
		x = c.Pad(x, [4]int{0, int(over)})
	}
	return c.Reshape(x, m, chunk, count*rows, heads)
}

// unchunked is the inverse of chunked.
func (d DeltaRule) unchunked(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	m, heads, rows, n := x.Dim(0), x.Dim(3), d.Rows, d.V.T.Dim(2)
	x = c.Reshape(x, m, x.Dim(1)*x.Dim(2)/rows, rows, heads)
	x = c.View(x, []int64{m, n / rows, rows, heads}, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, 0)
	return c.Reshape(c.Cont(c.Permute(x, [4]int{0, 2, 3, 1})), m, heads, n)
}
