package fuzz

import (
	"slices"
	"strings"
)

// A refusal is a call that ggml computes and the binding deliberately rejects.
type refusal struct {
	ops string
	of  func(v variation) bool
	why string
}

// deliberate returns the refusal that covers a variation, or nil.
func deliberate(v variation) *refusal {
	for i, r := range refusals {
		if slices.Contains(strings.Fields(r.ops), v.op) && r.of(v) {
			return &refusals[i]
		}
	}
	return nil
}

func typed(v variation) bool { return v.layout == contiguous }

func laid(v variation) bool { return v.layout != contiguous }

func operand(i int) func(v variation) bool {
	return func(v variation) bool { return v.operand == i }
}

var refusals = []refusal{
	{"Im2Col Im2Col3D", operand(0), "only the kernel's shape counts: it takes the types and layouts that the convolution takes"},
	{"Im2ColBack", operand(1), "only the kernel's shape counts: it takes the types and layouts that the convolution takes"},
	{
		"Conv1D Conv2D Conv3D ConvDepthwise1D ConvDepthwise2D", typed,
		"convolutions take data of F32 and kernels of F32 and F16: only those that are made of im2col and a product could take more",
	},
	{"AddRMSNorm", operand(2), "the sweep compares the first result, the sum, which does not depend on w"},
	{"GatedDeltaRuleGrad", operand(1), "the sweep compares the first result, the gradient of Q, which does not depend on Q"},
	{"SelectiveScan", typed, "a single number of I64 is right by its lower half"},
	{"GateStep", operand(1), "the result is the same for all finite losses"},
	{"SumSquares", laid, "the kernel goes through memory, where a sum is the same in any order: which layouts pass depends on the gaps"},
	{"AddCast", typed, "the sum of two F16 tensors is Add"},
	{"AddCast", laid, "without contiguous rows of b there is an assertion where a is quantised"},
	{"MulMat", typed, "F32 by BF16 is possible and F32 by F16 is not; a quantised b must be of the type to which the kernel of a quantises, which differs"},
	{
		"AccumulateGradWeight GEMMGradWeight", func(v variation) bool { return typed(v) && !hasGEMMLibrary() },
		"without a GEMM library they are made of OutProd, which takes more types",
	},
	{"SetRows", typed, "numbers become whole numbers by a Cast only"},
	{
		"ConvDepthwise1D ConvTranspose1D ConvTranspose2D CrossEntropyLoss LeakyRelu LeakyReluInPlace SiluBack", laid,
		"the kernel knows one distance between rows, so it takes some layouts with gaps: only contiguous ones can be relied on",
	},
	{
		"CrossEntropyLossBack Pool1D Pool2D Pool2DBack SoftMaxBack SoftMaxBackInPlace SSMConv SSMScan SSMScanStates " +
			"AccumulateGradWeight AdamWStep CastBF16 GateStep SoftmaxCrossEntropy SoftmaxCrossEntropyGradInPlace SoftmaxDivergence SoftmaxDivergenceGradInPlace GateGELU GatedDeltaRule GatedDeltaRuleGrad SelectiveScan GEMV GEMMLoRA GEMM GEMMGradWeight GEMMGradInput GroupedGEMM GroupedGEMMGradInput GroupedGEMMInt GroupedGEMMGradInputInt GroupedGEMMGradInputI8 GroupedGEMV AccumulateGroupedGradWeight GLUGradInPlace ShortConvolution ShortConvolutionGrad WeightedRMSNorm WeightedRMSNormGrad AddRMSNorm AddRMSNormGrad LayerNorm LayerNormGrad", laid,
		"the kernel, or an assertion of ggml, goes by strides of dimensions of size 1: which layouts pass depends on the shape",
	},
}
