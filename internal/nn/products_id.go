package nn

import "github.com/goggml/ggml"

// ExpertOperands multiply each column by its own matrices of W [n_in, n_out, experts], chosen by IDs, I32
// [used, n]. X is [n_in, used, n], or [n_in, 1, n] if the matrices of a column share it; in the gradient it
// is [n_out, used, n].
type ExpertOperands struct{ W, X, IDs *ggml.Tensor }

// GradIDOperands are the operands of AccumulateGradWeightID.
type GradIDOperands struct{ Acc, X, Dy, IDs *ggml.Tensor }

// Products of experts, and their gradients.
var (
	// MatMulID is W_id·x [n_out, used, n].
	MatMulID = &Op[ExpertOperands, *ggml.Tensor]{func(t *Tape, o ExpertOperands) *ggml.Tensor {
		return mulMatID(t.C, o.W, o.X, o.IDs)
	}}
	// MatMulIDGradInput is W_idᵀ·x [n_in, used, n].
	MatMulIDGradInput = &Op[ExpertOperands, *ggml.Tensor]{func(t *Tape, o ExpertOperands) *ggml.Tensor {
		return mulMatID(t.C, transposed(t.C, dequantised(t.C, o.W, ggml.F32)), o.X, o.IDs)
	}}
	// AccumulateGradWeightID adds x ⊗ dy, the gradient of W in MatMulID, in place to the chosen matrices of
	// acc [n_in, n_out, experts]. The ids of a column differ.
	AccumulateGradWeightID = &Op[GradIDOperands, *ggml.Tensor]{plainAccumulateGradWeightID}
)

func matMulIDDequantised(t *Tape, o ExpertOperands) *ggml.Tensor {
	return mulMatID(t.C, dequantised(t.C, o.W, ggml.F32), o.X, o.IDs)
}

// plainAccumulateGradWeightID multiplies, for each expert, the columns of all tokens, a chunk at a time, with
// zeros for tokens that did not choose the expert.
func plainAccumulateGradWeightID(t *Tape, g GradIDOperands) *ggml.Tensor {
	c, acc, x, dy, ids := t.C, g.Acc, g.X, g.Dy, g.IDs
	experts, shared, width := acc.Dim(2), x.Dim(1) < dy.Dim(1), dy.Dim(0)
	if !shared {
		width = max(width, x.Dim(0))
	}
	for _, r := range chunks(ids.Dim(1), max(1, scatterChunk/max(1, width*experts))) {
		some := func(x *ggml.Tensor) *ggml.Tensor {
			return c.View(x, []int64{x.Dim(0), x.Dim(1), r.to - r.from}, []int64{x.Stride(1), x.Stride(2)}, r.from*x.Stride(2))
		}
		chosen := c.View(ids, []int64{ids.Dim(0), r.to - r.from}, []int64{ids.Stride(1)}, r.from*ids.Stride(1))
		input := some(x)
		if !shared {
			input = spreadByExpert(c, input, chosen, experts)
		}
		acc = c.AddInPlace(acc, mulMat(c, tokensFirst(c, input), tokensFirst(c, spreadByExpert(c, some(dy), chosen, experts))))
	}
	return acc
}

// spreadByExpert returns x [m, used, n] as [m, experts, n], with zeros for experts that a token did not choose.
func spreadByExpert(c *ggml.Context, x, ids *ggml.Tensor, experts int64) *ggml.Tensor {
	m, n := x.Dim(0), x.Dim(2)
	one := c.View(x, []int64{m, 1, n}, []int64{x.Stride(1), x.Stride(2)}, 0)
	return c.SetRows(c.Fill(c.Repeat(one, m, experts, n), 0), x, ids)
}

// tokensFirst copies x [m, experts, n] to [n, m, experts].
func tokensFirst(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.Cont(c.Permute(x, [4]int{1, 2, 0, 3}))
}

// mulMatID returns W_id·x.
func mulMatID(c *ggml.Context, w, x, ids *ggml.Tensor) *ggml.Tensor {
	return keepF32(w, c.MulMatID(w, x, ids))
}
