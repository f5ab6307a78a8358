package nn

import "github.com/goggml/ggml"

// stockExperts multiplies by the device's own products.
type stockExperts struct{ stockLinear }

func (e stockExperts) MatMulID(c *ggml.Context, w, x, ids *ggml.Tensor) *ggml.Tensor {
	if e.dequantise {
		w = dequantised(c, w, ggml.F32)
	}
	return mulMatID(c, w, x, ids)
}

func (stockExperts) MatMulIDGradInput(c *ggml.Context, w, dy, ids *ggml.Tensor) *ggml.Tensor {
	return mulMatID(c, transposed(c, dequantised(c, w, ggml.F32)), dy, ids)
}

// AccumulateGradWeightID multiplies, for each expert, columns of all tokens, some at a time, which are
// zero where a token did not choose it.
func (stockExperts) AccumulateGradWeightID(c *ggml.Context, acc, x, dy, ids *ggml.Tensor) *ggml.Tensor {
	experts, shared, width := acc.Dim(2), x.Dim(1) < dy.Dim(1), dy.Dim(0)
	if !shared {
		width = max(width, x.Dim(0))
	}
	for _, r := range chunks(ids.Dim(1), max(1, scatterChunk/(width*experts))) {
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

// spreadByExpert is x [m, used, n] as [m, experts, n], zero where a token did not choose an expert.
func spreadByExpert(c *ggml.Context, x, ids *ggml.Tensor, experts int64) *ggml.Tensor {
	m, n := x.Dim(0), x.Dim(2)
	one := c.View(x, []int64{m, 1, n}, []int64{x.Stride(1), x.Stride(2)}, 0)
	return c.SetRows(c.Fill(c.Repeat(one, m, experts, n), 0), x, ids)
}

// tokensFirst is a copy of x [m, experts, n] as [n, m, experts].
func tokensFirst(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.Cont(c.Permute(x, [4]int{1, 2, 0, 3}))
}

// mulMatID is W_id·x.
func mulMatID(c *ggml.Context, w, x, ids *ggml.Tensor) *ggml.Tensor {
	return keepF32(w, c.MulMatID(w, x, ids))
}
