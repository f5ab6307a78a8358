package nn

import (
	"fmt"

	"github.com/goggml/ggml"
)

// Stock returns the table of the plain forms: ops that every ggml device has, as stock llama.cpp uses them, without
// package kernels, OUT_PROD and *_BACK. Products with quantised weights round x to 8 bits.
func Stock() *Lowering {
	return (&Lowering{Name: "stock"}).With(flashAttention, lightningIndexer, optionalSinkhorn)
}

// StockTraining returns [Stock] with dequantised weights, so that the backward pass differentiates
// the function that the forward pass computes. Products with frozen weights are in F32, or round
// both operands to BF16 and sum in F32. has are the optional ops of the device.
func StockTraining(compute ggml.Type, has OptionalOps) (*Lowering, error) {
	l := Stock().With(MatMul.By(matMulDequantised), MatMulID.By(matMulIDDequantised)).With(has.rows()...)
	switch compute {
	case ggml.F32:
		return l, nil
	case ggml.BF16:
		return l.With(Cast.By(func(t *Tape, x *ggml.Tensor) *ggml.Tensor { return t.C.Cast(x, ggml.BF16) })), nil
	}
	return nil, fmt.Errorf("there are no products of type %v on this device; they are f32 or bf16", compute)
}
