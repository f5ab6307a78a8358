package nn

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// Products in integers take less time than in floats from these sizes on: of a matrix, because X is packed for each, and of
// X, because the matrix is packed for each.
const leastInteger, leastIntegerColumns = 128, 24

// FastestType returns the compute type in which the CPU trains fastest with gradients as good as F32's: BF16 or F16 where that
// is fast, else I16, which rounds a tenth as much as BF16 and takes less time than F32.
func FastestType() ggml.Type {
	if t := kernels.FastestType(); t != ggml.F32 || !kernels.HasIntegers() {
		return t
	}
	return ggml.I16
}

// integers returns the rows that multiply frozen matrices in the integers of a compute type, and the compute type of all
// other products. I16 is 16 bits both ways. I8 is 8 bits for gradients of inputs, but 16 for what attention returns, and
// forward BF16 if the processor multiplies it fast, else 16 bits.
func integers(compute ggml.Type) ([]Row, ggml.Type) {
	back, backID := kernels.GEMMGradInputInt, kernels.GroupedGEMMGradInputInt
	if compute == ggml.I8 {
		back, backID = kernels.GEMMGradInputI8, kernels.GroupedGEMMGradInputI8
	}
	rows := []Row{MatMulGradInput.By(func(t *Tape, p Products) *ggml.Tensor {
		return multiplyIntegers(t, p, kernels.GEMMGradInput, kernels.GEMMGradInputInt, back)
	}), MatMulIDGradInput.By(func(t *Tape, o ExpertOperands) *ggml.Tensor {
		return multiplyExperts(t, o, kernels.GroupedGEMMGradInput, backID)
	})}
	if compute == ggml.I8 && kernels.FastestType() == ggml.BF16 {
		return rows, ggml.BF16
	}
	return append(rows, MatMul.By(func(t *Tape, p Products) *ggml.Tensor {
		return multiplyIntegers(t, p, kernels.GEMM, kernels.GEMMInt, kernels.GEMMInt)
	}), MatMulID.By(func(t *Tape, o ExpertOperands) *ggml.Tensor {
		return multiplyExperts(t, o, kernels.GroupedGEMM, kernels.GroupedGEMMInt)
	})), ggml.F32
}

// addIntegers adds products in integers to a sum, or returns their own if it is nil.
type addIntegers func(c *ggml.Context, sum *ggml.Tensor, pairs ...kernels.Pair) *ggml.Tensor

// multiplyIntegers multiplies large frozen matrices and enough columns by integers, in 16 bits where attention needs them,
// and others, such as the matrices of adapters, by floats.
func multiplyIntegers(t *Tape, p Products, floats func(*ggml.Context, ggml.Precision, ...kernels.Pair) *ggml.Tensor, i16, integers addIntegers) *ggml.Tensor {
	var exact, fine, rounded []Product
	for _, m := range p.List {
		switch {
		case p.F32Sums || m.Exact || m.X.Dim(1) < leastIntegerColumns || t.Trains(m.W) || !TakesIntegers(m.W):
			exact = append(exact, m)
		case m.Attended:
			fine = append(fine, m)
		default:
			rounded = append(rounded, m)
		}
	}
	var sum *ggml.Tensor
	if len(exact) > 0 {
		sum = floats(t.C, ggml.PrecisionF32, pairs(exact)...)
	}
	if len(fine) > 0 {
		sum = i16(t.C, sum, pairs(fine)...)
	}
	if len(rounded) > 0 {
		sum = integers(t.C, sum, pairs(rounded)...)
	}
	return sum
}

// TakesIntegers reports whether a matrix, or each one of experts, is large enough for integers.
func TakesIntegers(w *ggml.Tensor) bool { return min(w.Dim(0), w.Dim(1)) >= leastInteger }

// multiplyExperts multiplies large frozen experts by integers, and others by floats.
func multiplyExperts(t *Tape, o ExpertOperands, floats, integers func(c *ggml.Context, w, x, ids *ggml.Tensor) *ggml.Tensor) *ggml.Tensor {
	if !t.Trains(o.W) && TakesIntegers(o.W) {
		floats = integers
	}
	return floats(t.C, o.W, castForExperts(t, o), o.IDs)
}
