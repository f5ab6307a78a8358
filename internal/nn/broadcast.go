package nn

import "github.com/goggml/ggml"

// ScatterOperands are rows [n0, n] with their ids [n]. Like has the shape of the result, [n0, m].
type ScatterOperands struct{ Rows, IDs, Like *ggml.Tensor }

// ScatterAdd adds up rows by their ids, to [n0, m]: the gradient of a lookup.
var ScatterAdd = &Op[ScatterOperands, *ggml.Tensor]{plainScatterAdd}

// SumOperands are X [n0, …]. Like has the shape of the result, [n0].
type SumOperands struct{ X, Like *ggml.Tensor }

// SumColumns adds up X over all but ne0: the gradient of a vector that is repeated.
var SumColumns = &Op[SumOperands, *ggml.Tensor]{plainSumColumns}

// scatterChunk bounds the elements of the one-hot matrices of a scatter.
const scatterChunk = 1 << 24

// plainScatterAdd multiplies with one-hot vectors, some tokens at a time.
func plainScatterAdd(t *Tape, s ScatterOperands) *ggml.Tensor {
	c, m := t.C, s.Like.Dim(1)
	var all *ggml.Tensor
	for _, r := range chunks(s.Rows.Dim(1), max(1, scatterChunk/m)) {
		n := r.to - r.from
		one := c.Reshape(c.ScaleBias(c.Arange(0, float32(n), 1), 0, 1), 1, 1, n)
		zeros := c.Repeat(c.ScaleBias(one, 0, 0), 1, m, n)
		some := c.View(s.IDs, []int64{1, n}, []int64{s.IDs.Stride(0)}, r.from*s.IDs.Stride(0))
		onehot := c.Reshape(c.SetRows(zeros, one, some), m, n)
		all = added(c, all, mulMat(c, transposed(c, columns(c, s.Rows, r)), transposed(c, onehot)))
	}
	return all
}

func plainSumColumns(t *Tape, s SumOperands) *ggml.Tensor {
	c, m := t.C, s.X.Dim(0)
	flat := c.Reshape(contiguous(c, s.X), m, s.X.NumElements()/m)
	return c.Reshape(c.SumRows(transposed(c, flat)), s.Like.Shape()...)
}
