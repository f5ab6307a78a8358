package nn

import (
	"cmp"
	"fmt"

	"github.com/goggml/ggml"
)

// chunkLength is the number of tokens in a chunk of a recurrence: large enough that products outweigh their launch, and
// small because work within a chunk grows with its square.
const chunkLength = 64

// tokenChunks divides the rows of a batch into chunks of tokens, for recurrences with decaying states. Vectors of tokens
// are [size, chunk, chunks·rows, heads], scalars of tokens [1, chunk, chunks·rows, heads].
type tokenChunks struct {
	c      *ggml.Context
	n      int64 // tokens
	rows   int64
	steps  int64 // for each token of the batch
	length int64 // of a chunk
	count  int64 // of chunks of a row

	gamma *ggml.Tensor // decay from the start of a chunk to a token, [1, chunk, …]
	left  *ggml.Tensor // decay from a token to the end of its chunk, [1, chunk, …]
	total *ggml.Tensor // decay over a whole chunk, [1, 1, …]
	decay *ggml.Tensor // decay from an earlier to a later token, [earlier, later, …]
}

// newChunks divides n tokens, of one step each, in rows of equal length into chunks; length 0 is chunkLength.
func newChunks(c *ggml.Context, n, rows, length int64) tokenChunks {
	length = max(1, min(cmp.Or(length, chunkLength), n/rows)) // n is 0 if an op failed
	return tokenChunks{c: c, n: n, rows: rows, steps: 1, length: length, count: max(1, (n/rows+length-1)/length)}
}

// split divides x [m, heads, n] into chunks [m, chunk, chunks·rows, heads], padded with zeros at the end of a row.
func (f *tokenChunks) split(x *ggml.Tensor) *ggml.Tensor {
	c, m, heads, length := f.c, x.Dim(0), x.Dim(1), f.n/f.rows
	x = c.Cont(c.Permute(c.Reshape(contiguous(c, x), m, heads, length, f.rows), [4]int{0, 3, 1, 2}))
	if over := f.count*f.length - length; over > 0 {
		x = c.Pad(x, [4]int{0, int(over)})
	}
	return c.Reshape(x, m, f.length, f.count*f.rows, heads)
}

// numbers divides x [heads, n] or [1, heads, n] into chunks [1, chunk, chunks·rows, heads].
func (f *tokenChunks) numbers(x *Value) *ggml.Tensor {
	return f.split(f.c.Reshape(contiguous(f.c, x.T), 1, x.T.NumElements()/max(1, f.n), f.n))
}

// merge is the inverse of split.
func (f *tokenChunks) merge(x *ggml.Tensor) *ggml.Tensor {
	c, m, heads := f.c, x.Dim(0), x.Dim(3)
	x = c.Reshape(x, m, x.Dim(1)*x.Dim(2)/f.rows, f.rows, heads)
	x = c.View(x, []int64{m, f.n / f.rows, f.rows, heads}, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, 0)
	return c.Reshape(c.Cont(c.Permute(x, [4]int{0, 2, 3, 1})), m, heads, f.n)
}

// mergeNumbers is the inverse of numbers.
func (f *tokenChunks) mergeNumbers(x *ggml.Tensor) *ggml.Tensor {
	return f.c.Reshape(f.merge(x), x.Dim(3), f.n)
}

// at returns chunk i of each row: x [a, b, chunks·rows, heads] → [a, b, rows, heads].
func (f *tokenChunks) at(x *ggml.Tensor, i int64) *ggml.Tensor {
	if f.count == 1 {
		return x
	}
	return f.c.View(x, []int64{x.Dim(0), x.Dim(1), f.rows, x.Dim(3)}, []int64{x.Stride(1), f.count * x.Stride(2), x.Stride(3)}, i*x.Stride(2))
}

// stack joins the chunks again: the inverse of at.
func (f *tokenChunks) stack(list []*ggml.Tensor) *ggml.Tensor {
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

func (f *tokenChunks) transposed(x *ggml.Tensor) *ggml.Tensor { return transposed(f.c, x) }

// along reshapes the scalars of a chunk's tokens, [1, chunk, …] → [chunk, 1, …].
func (f *tokenChunks) along(x *ggml.Tensor) *ggml.Tensor {
	return f.c.Reshape(x, x.Dim(1), x.Dim(0), x.Dim(2), x.Dim(3))
}

// last returns the scalar of each chunk's last token: x [1, chunk, …] → [1, 1, …].
func (f *tokenChunks) last(x *ggml.Tensor) *ggml.Tensor {
	return f.c.Cont(f.c.View(x, []int64{1, 1, x.Dim(2), x.Dim(3)}, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, (x.Dim(1)-1)*x.Stride(1)))
}

// decays computes the decays between tokens from their logarithms g [1, chunk, chunks·rows, heads], by sums within a
// chunk. The decay across the start of a sample is 0.
func (f *tokenChunks) decays(t *Tape, g *ggml.Tensor, packed bool) {
	c, chunk := f.c, f.length
	sums := c.CumSum(f.along(g)) // [chunk, 1, …]
	square := func(x *ggml.Tensor) *ggml.Tensor { return c.Repeat(x, chunk, chunk, g.Dim(2), g.Dim(3)) }
	later := c.Reshape(sums, 1, chunk, g.Dim(2), g.Dim(3))
	f.decay = c.Exp(c.Tri(c.Sub(square(later), sums), ggml.LowerDiag))
	f.gamma = c.Exp(later)
	f.left = c.Exp(c.Sub(c.Repeat(f.last(later), g.Shape()...), later))
	if packed {
		same, since := f.samples(t)
		f.decay, f.gamma = c.Mul(f.decay, same), c.Mul(f.gamma, since)
		f.left = c.Mul(f.left, f.ofLast(same))
	}
	f.total = f.last(f.gamma)
}

// ofLast are 1 where a token is of the sample of the last one of its chunk, [1, chunk, chunks·rows].
func (f *tokenChunks) ofLast(same *ggml.Tensor) *ggml.Tensor {
	c, chunk := f.c, f.length
	last := c.View(same, []int64{chunk, 1, same.Dim(2)}, []int64{same.Stride(1), same.Stride(2)}, (chunk-1)*same.Stride(1))
	return c.Reshape(c.Cont(last), 1, chunk, same.Dim(2))
}

// decayGrads returns the gradient of g, given the gradients of log decay [earlier, later, …], log gamma and log left
// [1, chunk, …], and log total [1, 1, …]. The g of a token is a term of every later token's sum in the chunk.
func (f *tokenChunks) decayGrads(decay, gamma, left, total *ggml.Tensor) *ggml.Tensor {
	c := f.c
	sums := c.Sub(c.SumRows(decay), c.SumRows(f.transposed(decay)))
	sums = c.Sub(c.Add(sums, gamma), left)
	atEnd := c.Add(c.SumRows(f.along(left)), total)
	line := f.along(sums)
	after := c.Add(c.Sub(c.Repeat(c.SumRows(line), line.Shape()...), c.CumSum(line)), line)
	return c.Reshape(c.Add(after, atEnd), sums.Shape()...)
}

// totalGrad returns the gradient of log total, given the states before each chunk and the gradients of the states
// after it, [a, b, chunks·rows, heads].
func (f *tokenChunks) totalGrad(states, next *ggml.Tensor) *ggml.Tensor {
	c, x := f.c, f.c.Mul(next, states)
	sum := c.Reshape(c.SumRows(c.Reshape(x, x.Dim(0)*x.Dim(1), x.Dim(2), x.Dim(3))), 1, 1, x.Dim(2), x.Dim(3))
	return c.Mul(sum, f.total)
}

// samples returns two masks of zeros and ones: same, whether two tokens of a chunk belong to one sample, [chunk, chunk,
// chunks·rows]; since, whether a token's sample began before the chunk, [1, chunk, chunks·rows].
func (f *tokenChunks) samples(t *Tape) (same, since *ggml.Tensor) {
	size, count, all, steps := int(f.length), int(f.count), f.count*f.rows, int(f.steps)
	// start returns the first token of a token's sample; padding continues the last sample of its row.
	start := func(feed *Feed, of, i int) int {
		row, length := of/count, feed.Length()
		at := min((of%count*size+i)/steps, length-1)
		return int(feed.Starts[row*length+at]) * steps
	}
	same = Declare(t.Inputs, fmt.Sprintf("tokens of one sample in chunks of %d, %d steps each", size, steps), ggml.F32, []int64{f.length, f.length, all}, func(feed *Feed, x []float32) {
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
	since = Declare(t.Inputs, fmt.Sprintf("samples before chunks of %d, %d steps each", size, steps), ggml.F32, []int64{1, f.length, all}, func(feed *Feed, x []float32) {
		for i := range x {
			of := i / size
			if start(feed, of, i%size) < of%count*size {
				x[i] = 1
			}
		}
	})
	return same, since
}
