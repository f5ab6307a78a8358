package nn

import (
	"fmt"

	"github.com/goggml/ggml"
)

// Stock is the table of the plain forms, of ops that every device of ggml has, as stock llama.cpp uses them: no op of
// kernels, no OUT_PROD and no *_BACK. Products with quantised weights round x to 8 bits.
func Stock() *Lowering {
	l := &Lowering{Name: "stock", TakesCopies: true, AdamWResults: 2}
	return l.With(flashAttention)
}

// StockTraining is [Stock] that dequantises weights before it multiplies: both ways go
// through the same function. Products with frozen weights are in F32, or round both
// operands to BF16 and add up in F32. Checkpoints compress nothing: what they would write
// into is the CPU's. The device has the optional ops.
func StockTraining(compute ggml.Type, has OptionalOps) (*Lowering, error) {
	l := Stock().With(MatMul.By(matMulDequantised), MatMulID.By(matMulIDDequantised)).With(has.rows()...)
	switch compute {
	case ggml.F32:
		return l, nil
	case ggml.BF16:
		return l.With(KeepBF16, Cast.By(func(t *Tape, x *ggml.Tensor) *ggml.Tensor { return t.C.Cast(x, ggml.BF16) })), nil
	}
	return nil, fmt.Errorf("there are no products of type %v on this device; they are f32 or bf16", compute)
}
