package nn

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// CPU is the lowering onto [github.com/goggml/ggml/kernels]. Products with frozen
// weights are computed in the type: F32 is exact; BF16 rounds both operands, F16 sums
// too, and either is faster where it is the [kernels.FastestType]. I16 and I8
// multiply in integers, see [integers].
func CPU(compute ggml.Type) (*Lowering, error) {
	var rows []Row
	if compute == ggml.I16 || compute == ggml.I8 {
		rows, compute = integers(compute)
	}
	rows = append(rows, cpuProducts{compute}.rows()...)
	fastBF16 := false
	switch compute {
	case ggml.F32, ggml.F16:
	case ggml.BF16:
		if fastBF16 = kernels.HasBF16Attention(); fastBF16 {
			rows = append(rows, Attention.When(isLong, causalAttentionBF16))
		}
	default:
		return nil, fmt.Errorf("there are no products of type %v; they are f32, bf16, f16, i16 or i8", compute)
	}
	l := &Lowering{Name: "cpu"}
	return l.With(append(rows, Attention.When(seesEarlier, causalAttention))...).With(
		IndexScores.By(lightningScores),
		Sinkhorn.When(isFused, fusedSinkhorn),
		GLU.By(gluInPlace),
		GatedDelta.By(gatedDeltaRule(fastBF16)),
		GatedDeltaStep.When(fillsChunks, gatedDeltaStep),
		SelectiveScanStep.When(decaysByHead, selectiveScanStep),
		ShortConv.When(func(_ *Tape, o ConvOperands) bool { return o.Kernel.Type() == ggml.F32 }, shortConvolution),
		CrossEntropy.By(softmaxCrossEntropy),
		Divergence.By(softmaxDivergence),
		ScatterAdd.By(func(t *Tape, s ScatterOperands) *ggml.Tensor { return t.C.GetRowsBack(s.Rows, s.IDs, s.Like) }),
		SumColumns.By(func(t *Tape, s SumOperands) *ggml.Tensor { return t.C.RepeatBack(s.X, s.Like) }),
		RoPE.By(ropeBack),
		Normalization.When(func(_ *Tape, n NormOperands) bool { return n.Layer }, layerNorm),
		Normalization.When(func(_ *Tape, n NormOperands) bool { return !n.Layer }, weightedRMSNorm),
		AddNorm.When(func(_ *Tape, o AddNormOperands) bool { return o.isWeightedRMS() }, addRMSNorm),
		FrozenCopies.By(func(*Tape, Matrix) Copies { return nil }),
		CachedAttention.When(hasManyQueries, cachedAttention),
		flashAttention,
		SumSquares.By(func(t *Tape, g Gradients) *ggml.Tensor { return addUp(t.C, g.Each, kernels.SumSquares) }), // wherever they lie
		GateStep.By(gateStep),
		AdamWStep.By(func(t *Tape, a AdamWOperands) []*ggml.Tensor {
			return []*ggml.Tensor{kernels.AdamWStep(t.C, kernels.AdamWOperands(a))}
		}),
	), nil
}

// cpuProducts multiplies in a type.
type cpuProducts struct{ compute ggml.Type }

func (l cpuProducts) rows() []Row {
	return []Row{
		Cast.By(func(t *Tape, x *ggml.Tensor) *ggml.Tensor {
			if l.compute != ggml.BF16 {
				return x
			}
			return kernels.CastBF16(t.C, x)
		}),
		MatMul.By(func(t *Tape, p Products) *ggml.Tensor { return kernels.GEMM(t.C, l.accumulation(p), pairs(p.List)...) }),
		MatMulGradInput.By(func(t *Tape, p Products) *ggml.Tensor {
			return kernels.GEMMGradInput(t.C, l.accumulation(p), pairs(p.List)...)
		}),
		AccumulateGradWeight.By(func(t *Tape, g GradOperands) *ggml.Tensor {
			return kernels.AccumulateGradWeight(t.C, g.Acc, g.X, g.Dy)
		}),
		MatMulID.By(func(t *Tape, o ExpertOperands) *ggml.Tensor {
			return kernels.GroupedGEMM(t.C, o.W, castForExperts(t, o), o.IDs)
		}),
		MatMulIDGradInput.By(func(t *Tape, o ExpertOperands) *ggml.Tensor {
			return kernels.GroupedGEMMGradInput(t.C, o.W, castForExperts(t, o), o.IDs)
		}),
		AccumulateGradWeightID.By(func(t *Tape, g GradIDOperands) *ggml.Tensor {
			return kernels.AccumulateGroupedGradWeight(t.C, g.Acc, contiguous(t.C, g.X), contiguous(t.C, g.Dy), g.IDs)
		}),
	}
}

// castForExperts returns x in the compute type, but in F32 for weights in F32, because most of those are trained.
func castForExperts(t *Tape, o ExpertOperands) *ggml.Tensor {
	x := contiguous(t.C, o.X)
	if o.W.Type() == ggml.F32 {
		return x
	}
	return Cast.Build(t, x)
}

// accumulation is the precision in which products are added up.
func (l cpuProducts) accumulation(p Products) ggml.Precision {
	if l.compute == ggml.F16 && !p.F32Sums {
		return ggml.PrecisionF16
	}
	return ggml.PrecisionF32
}

func pairs(products []Product) []kernels.Pair {
	list := make([]kernels.Pair, len(products))
	for i, p := range products {
		list[i] = kernels.Pair{W: p.W, X: p.X}
	}
	return list
}

// SessionExperts are rows of sessions: products of experts with few columns, as in decoding, and with many in 16-bit integers
// if those are fastest. Weights in F32 stay exact.
func SessionExperts() []Row {
	few := func(_ *Tape, o ExpertOperands) bool {
		gathered := int64(4) // columns of an expert from which on a GEMM takes less time
		if kernels.HasBatchedGEMV(o.W.Type()) {
			gathered = 16
		}
		return o.IDs.NumElements() < gathered*o.W.Dim(2)
	}
	fastest := FastestType()
	integers := func(_ *Tape, o ExpertOperands) bool {
		return fastest == ggml.I16 && o.W.Type() != ggml.F32 && TakesIntegers(o.W)
	}
	return []Row{MatMulID.When(few, func(t *Tape, o ExpertOperands) *ggml.Tensor {
		return kernels.GroupedGEMV(t.C, o.W, contiguous(t.C, o.X), o.IDs)
	}), MatMulID.When(integers, func(t *Tape, o ExpertOperands) *ggml.Tensor {
		return kernels.GroupedGEMMInt(t.C, o.W, contiguous(t.C, o.X), o.IDs)
	})}
}

// seesEarlier reports whether bounds say which keys up to its own each query sees.
func seesEarlier(_ *Tape, a AttentionOperands) bool {
	return !a.Bidirectional && a.Bias == nil && a.Chosen == nil && a.pools == nil
}

// longRow is the number of tokens from which on attention and recurrences take enough of a step to be faster in BF16. In
// shorter rows F32, which rounds less, costs nothing.
const longRow = 256

func isLong(t *Tape, a AttentionOperands) bool { return seesEarlier(t, a) && a.Q.Dim(2) >= longRow }

func nativeAttention(a AttentionOperands) kernels.Attention {
	native := kernels.Attention{Q: a.Q, K: a.K, V: a.V, Scale: a.Scale, Scores: kernels.ScoreOptions(a.Scores)}
	if a.FirstVisible != nil {
		native.FirstVisible = a.FirstVisible(ggml.I32)
	}
	if a.HiddenFrom != nil {
		native.HiddenFrom, native.HiddenTo = a.HiddenFrom(ggml.I32), a.HiddenTo(ggml.I32)
	}
	return native
}

func causalAttention(t *Tape, a AttentionOperands) Result[AttentionGrads] {
	native := nativeAttention(a)
	return Result[AttentionGrads]{kernels.CausalAttention(t.C, native), func(dy *ggml.Tensor) (d AttentionGrads) {
		d.Q, d.K, d.V, d.Sinks = kernels.CausalAttentionGrad(t.C, dy, native)
		return d
	}}
}

func causalAttentionBF16(t *Tape, a AttentionOperands) Result[AttentionGrads] {
	native := nativeAttention(a)
	_, saved := kernels.CausalAttentionBF16(t.C, native)
	saved = t.keepable(saved)
	return Result[AttentionGrads]{t.C.View(saved, a.Q.Shape(), nil, 0), func(dy *ggml.Tensor) (d AttentionGrads) {
		d.Q, d.K, d.V, d.Sinks = kernels.CausalAttentionBF16Grad(t.C, dy, saved, native)
		return d
	}}
}

// hasManyQueries reports whether products of blocks of queries take less time than flash attention, and all heads share a
// mask.
func hasManyQueries(_ *Tape, o CachedOperands) bool {
	const many = 32
	n := o.Q.Dim(1)
	return n >= many && o.Mask != nil && o.Mask.Dim(1) == n && o.Mask.Dim(2) == 1 && o.Mask.Dim(3) == o.Q.Dim(3)
}

func cachedAttention(t *Tape, o CachedOperands) *ggml.Tensor {
	return kernels.CachedAttention(t.C, o.Q, o.K, o.V, o.AttentionOptions)
}

func shortConvolution(t *Tape, o ConvOperands) Result[*ggml.Tensor] {
	c, n := t.C, o.X.Dim(1)
	native := kernels.ShortConv{
		X: o.X, Kernel: c.Reshape(o.Kernel, o.Kernel.Dim(0), o.X.Dim(0)), Bias: o.Bias, Before: o.Before, Step: o.Step, SiLU: o.SiLU,
	}
	if o.Before == nil && o.Kernel.Dim(0) > 1 {
		native.Positions = Declare(t.Inputs, "positions in samples", ggml.I32, []int64{n}, func(f *Feed, x []int32) { clear(x[copy(x, f.Positions):]) })
	}
	y := c.Reshape(kernels.ShortConvolution(c, native), o.X.Dim(0), n*o.X.Dim(2))
	return Result[*ggml.Tensor]{y, func(dy *ggml.Tensor) *ggml.Tensor { return kernels.ShortConvolutionGrad(c, dy, native) }}
}

// glu leaves to ggml the activations that it has vectorised.
func glu(c *ggml.Context, act ggml.GLU, gate, up *ggml.Tensor) *ggml.Tensor {
	if act == ggml.GeGLU {
		return kernels.GateGELU(c, contiguous(c, gate), contiguous(c, up))
	}
	return c.GLUSplit(act, gate, up)
}

func gluInPlace(t *Tape, o GLUOperands) Result[GLUGrads] {
	c := t.C
	return Result[GLUGrads]{glu(c, o.Act, o.Gate, o.Up), func(dy *ggml.Tensor) GLUGrads {
		return GLUGrads{
			Gate: kernels.GLUGradInPlace(c, o.Act, contiguous(c, o.Up), contiguous(c, o.Gate), dy),
			Up:   glu(c, o.Act, o.Gate, dy),
		}
	}}
}

// contiguous returns x, or a copy if x is a part of rows. A part of a single row needs no copy, but
// the strides of a whole row, which kernels check.
func contiguous(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	_, view := x.ViewSource()
	switch {
	case !x.IsContiguous():
		return c.Cont(x)
	case view:
		return c.Reshape(x, x.Shape()...)
	}
	return x
}

func softmaxCrossEntropy(t *Tape, e CrossEntropyOperands) Losses {
	native := kernels.CrossEntropy{Logits: e.Logits, Labels: e.Labels(false)}
	losses, normalisers := kernels.SoftmaxCrossEntropy(t.C, native)
	return Losses{losses, func() *ggml.Tensor {
		return kernels.SoftmaxCrossEntropyGradInPlace(t.C, native, e.Weights(false), normalisers)
	}}
}

func softmaxDivergence(t *Tape, d DivergenceOperands) Losses {
	labels := d.Labels(false)
	losses, slopes := kernels.SoftmaxDivergence(t.C, kernels.Divergence{Logits: d.Logits, Labels: labels, Probs: d.Probs(false), Beta: d.Beta})
	return Losses{losses, func() *ggml.Tensor {
		return kernels.SoftmaxDivergenceGradInPlace(t.C, d.Logits, labels, d.Weights(false), slopes)
	}}
}

func layerNorm(t *Tape, n NormOperands) Result[*ggml.Tensor] {
	return Result[*ggml.Tensor]{kernels.LayerNorm(t.C, n.X, n.Weight, n.Bias, n.Eps), func(dy *ggml.Tensor) *ggml.Tensor {
		return kernels.LayerNormGrad(t.C, dy, n.X, n.Weight, n.Eps)
	}}
}

func weightedRMSNorm(t *Tape, n NormOperands) Result[*ggml.Tensor] {
	return Result[*ggml.Tensor]{addBias(t.C, kernels.WeightedRMSNorm(t.C, n.X, n.Weight, n.Eps), n.Bias), func(dy *ggml.Tensor) *ggml.Tensor {
		return kernels.WeightedRMSNormGrad(t.C, dy, n.X, n.Weight, n.Eps)
	}}
}

// gateStep has the settings of all groups in one tensor, and the status behind them.
func gateStep(t *Tape, g GateOperands) GatedStep {
	all := kernels.GateStep(t.C, kernels.GateOperands(g))
	groups := g.Settings.Dim(1) - 1
	gated := GatedStep{Status: t.C.View(all, []int64{2}, nil, groups*g.Settings.Stride(1))}
	for i := range groups {
		gated.Settings = append(gated.Settings, t.C.View(all, []int64{8}, nil, i*g.Settings.Stride(1)))
	}
	return gated
}
