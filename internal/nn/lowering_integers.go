package nn

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// leastInteger is the least dimension of a matrix whose packing takes little of the time of its product.
const leastInteger = 128

// integers returns the rows that multiply frozen matrices in integers, and the compute type of all other products. On
// processors that multiply BF16 fast, the way forward is in BF16, and only gradients are in integers.
func integers() ([]Row, ggml.Type) {
	rows := []Row{MatMulGradInput.By(func(t *Tape, p Products) *ggml.Tensor {
		return multiplyIntegers(t, p, kernels.GEMMGradInput, kernels.GEMMGradInputInt)
	})}
	if kernels.FastestType() == ggml.BF16 {
		return rows, ggml.BF16
	}
	return append(rows, MatMul.By(func(t *Tape, p Products) *ggml.Tensor {
		return multiplyIntegers(t, p, kernels.GEMM, kernels.GEMMInt)
	})), ggml.F32
}

// multiplyIntegers multiplies large frozen matrices by integers, and others, such as the matrices of adapters, by floats.
func multiplyIntegers(t *Tape, p Products, floats func(*ggml.Context, ggml.Precision, ...kernels.Pair) *ggml.Tensor,
	integers func(*ggml.Context, *ggml.Tensor, ...kernels.Pair) *ggml.Tensor) *ggml.Tensor {
	var rounded, exact []Product
	for _, m := range p.List {
		if p.F32Sums || m.Exact || t.Trains(m.W) || min(m.W.Dim(0), m.W.Dim(1)) < leastInteger {
			exact = append(exact, m)
		} else {
			rounded = append(rounded, m)
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
