package nn

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// leastInteger is the least dimension of a matrix whose packing takes little of the time of its product.
const leastInteger = 128

// integers returns the rows that multiply frozen matrices in the integers of a compute type, and the compute type of all
// other products. I16 is 16 bits both ways. I8 is 8 bits for gradients of inputs, and forward BF16 if the processor
// multiplies it fast, else 16 bits.
func integers(compute ggml.Type) ([]Row, ggml.Type) {
	back, backID := kernels.GEMMGradInputInt, kernels.GroupedGEMMGradInputInt
	if compute == ggml.I8 {
		back, backID = kernels.GEMMGradInputI8, kernels.GroupedGEMMGradInputI8
	}
	rows := []Row{MatMulGradInput.By(func(t *Tape, p Products) *ggml.Tensor {
		return multiplyIntegers(t, p, kernels.GEMMGradInput, back)
	}), MatMulIDGradInput.By(func(t *Tape, o ExpertOperands) *ggml.Tensor {
		return multiplyExperts(t, o, kernels.GroupedGEMMGradInput, backID)
	})}
	if compute == ggml.I8 && kernels.FastestType() == ggml.BF16 {
		return rows, ggml.BF16
	}
	return append(rows, MatMul.By(func(t *Tape, p Products) *ggml.Tensor {
		return multiplyIntegers(t, p, kernels.GEMM, kernels.GEMMInt)
	}), MatMulID.By(func(t *Tape, o ExpertOperands) *ggml.Tensor {
		return multiplyExperts(t, o, kernels.GroupedGEMM, kernels.GroupedGEMMInt)
	})), ggml.F32
}

// multiplyIntegers multiplies large frozen matrices by integers, and others, such as the matrices of adapters, by floats.
func multiplyIntegers(t *Tape, p Products, floats func(*ggml.Context, ggml.Precision, ...kernels.Pair) *ggml.Tensor,
	integers func(*ggml.Context, *ggml.Tensor, ...kernels.Pair) *ggml.Tensor) *ggml.Tensor {
	var rounded, exact []Product
	for _, m := range p.List {
		if !p.F32Sums && !m.Exact && t.takesIntegers(m.W) {
			rounded = append(rounded, m)
		} else {
			exact = append(exact, m)
		}
	}
	var sum *ggml.Tensor
	if len(exact) > 0 {
		sum = floats(t.C, ggml.PrecisionF32, pairs(exact)...)
	}
	if len(rounded) > 0 {
		sum = integers(t.C, sum, pairs(rounded)...)
	}
	return sum
}

// takesIntegers reports whether a matrix, or each one of experts, is frozen and large.
func (t *Tape) takesIntegers(w *ggml.Tensor) bool {
	return !t.Trains(w) && min(w.Dim(0), w.Dim(1)) >= leastInteger
}

// multiplyExperts multiplies large frozen experts by integers, and others by floats.
func multiplyExperts(t *Tape, o ExpertOperands, floats, integers func(c *ggml.Context, w, x, ids *ggml.Tensor) *ggml.Tensor) *ggml.Tensor {
	if t.takesIntegers(o.W) {
		floats = integers
	}
	return floats(t.C, o.W, castForExperts(t, o), o.IDs)
}
