package kernels

// #include "adamw.h"
// #include "attention.h"
// #include "delta_rule.h"
// #include "divergence.h"
// #include "gemm.h"
// #include "norm.h"
// #include "short_conv.h"
import "C"

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/goggml/ggml"
)

// Ops that servers of package rpc compute for clients: the ops of training in F32 and BF16. The functions that make an op
// check its operands, whoever gives them. Kernels read no row number that they have not checked: an expert or a label that
// does not exist makes NaN, and bounds of keys are clamped.

func init() { ggml.RegisterRemoteOps(remoteOps) }

type remote struct {
	c *ggml.Context
	x []*ggml.Tensor
	n ggml.NativeNode
}

// remoteOps lists the ops that this processor and its GEMM library compute.
func remoteOps() []ggml.RemoteOp {
	if !hasLibrary() {
		return nil
	}
	ops := trainingOps()
	if HasBF16() {
		ops = append(ops, remoteOp(castBF16, 1, nil, func(r remote) *ggml.Tensor { return CastBF16(r.c, r.x[0]) }))
	}
	if HasBF16Attention() {
		ops = append(ops,
			remoteOp(causalAttentionBF16, 3, bf16Scratch, func(r remote) *ggml.Tensor {
				_, saved := CausalAttentionBF16(r.c, r.attention(0))
				return saved
			}),
			remoteOp(causalAttentionBF16Grad, 5, bf16Scratch, func(r remote) *ggml.Tensor {
				dq, _, _, _ := CausalAttentionBF16Grad(r.c, r.x[0], r.x[1], r.attention(2))
				return whole(dq)
			}))
	}
	return ops
}

// trainingOps lists the ops of training in F32.
var trainingOps = sync.OnceValue(func() []ggml.RemoteOp {
	ops := []ggml.RemoteOp{
		remoteOp(rmsNorm, 1, nil, func(r remote) *ggml.Tensor { return WeightedRMSNorm(r.c, r.x[0], r.weight(), r.eps()) }),
		remoteOp(rmsNormGrad, 2, nil, func(r remote) *ggml.Tensor { return WeightedRMSNormGrad(r.c, r.x[0], r.x[1], r.weight(), r.eps()) }),
		remoteOp(addRMSNorm, 3, nil, func(r remote) *ggml.Tensor {
			sum, _ := AddRMSNorm(r.c, r.x[0], r.x[1], r.x[2], r.eps())
			return whole(sum)
		}),
		remoteOp(addRMSNormGrad, 4, nil, func(r remote) *ggml.Tensor { return AddRMSNormGrad(r.c, r.x[0], r.x[1], r.x[2], r.x[3], r.eps()) }),
		remoteOp(layerNorm, 1, nil, func(r remote) *ggml.Tensor {
			p := read[C.struct_kern_norm_params](r.n)
			return LayerNorm(r.c, r.x[0], r.weight(), r.optional(p.bias), r.eps())
		}),
		remoteOp(layerNormGrad, 2, nil, func(r remote) *ggml.Tensor {
			return LayerNormGrad(r.c, r.x[0], r.x[1], r.weight(), r.eps())
		}),
		remoteOp(forward.op, 2, gemmScratch, func(r remote) *ggml.Tensor { return GEMM(r.c, r.acc(), r.pairs()...) }),
		remoteOp(gradInput.op, 2, gemmScratch, func(r remote) *ggml.Tensor { return GEMMGradInput(r.c, r.acc(), r.pairs()...) }),
		remoteOp(accumulateGradWeight, 3, gemmScratch, func(r remote) *ggml.Tensor { return AccumulateGradWeight(r.c, r.x[0], r.x[1], r.x[2]) }),
		remoteOp(causalAttention, 3, attentionScratch, func(r remote) *ggml.Tensor { return CausalAttention(r.c, r.attention(0)) }),
		remoteOp(causalAttentionGrad, 4, attentionScratch, func(r remote) *ggml.Tensor {
			dq, _, _, _ := CausalAttentionGrad(r.c, r.x[0], r.attention(1))
			return whole(dq)
		}),
		remoteOp(crossEntropy, 2, nil, func(r remote) *ggml.Tensor {
			losses, _ := SoftmaxCrossEntropy(r.c, CrossEntropy{r.x[0], r.x[1]})
			return whole(losses)
		}),
		remoteOp(crossEntropyGrad, 4, nil, func(r remote) *ggml.Tensor {
			return SoftmaxCrossEntropyGradInPlace(r.c, CrossEntropy{r.x[0], r.x[1]}, r.x[2], r.x[3])
		}),
		remoteOp(divergence, 3, nil, func(r remote) *ggml.Tensor {
			p := read[C.struct_kern_divergence_params](r.n)
			losses, _ := SoftmaxDivergence(r.c, Divergence{Logits: r.x[0], Labels: r.x[1], Probs: r.x[2], Beta: float32(p.beta)})
			return whole(losses)
		}),
		remoteOp(divergenceGrad, 4, nil, func(r remote) *ggml.Tensor {
			return SoftmaxDivergenceGradInPlace(r.c, r.x[0], r.x[1], r.x[2], r.x[3])
		}),
		remoteOp(geGLU, 2, nil, func(r remote) *ggml.Tensor { return GateGELU(r.c, r.x[0], r.x[1]) }),
		remoteOp(sumSquares, 1, nil, func(r remote) *ggml.Tensor {
			if sources := SumSquares(r.c, r.x[0]).Sources(); len(sources) > 0 {
				return sources[0] // of each part
			}
			return nil
		}),
		remoteOp(gateStep, 4, nil, func(r remote) *ggml.Tensor {
			p := read[C.struct_kern_gate](r.n)
			return GateStep(r.c, GateOperands{Squares: r.x[0], Losses: r.x[1], Weights: r.x[2], Settings: r.x[3], Clip: float64(p.clip)})
		}),
		remoteOp(adamWStep, 5, nil, func(r remote) *ggml.Tensor {
			return AdamWStep(r.c, AdamWOperands{Param: r.x[0], Grad: r.x[1], M: r.x[2], V: r.x[3], Settings: r.x[4]})
		}),
		remoteOp(groupedForward.op, 3, groupedScratch, func(r remote) *ggml.Tensor { return GroupedGEMM(r.c, r.x[0], r.x[1], r.x[2]) }),
		remoteOp(groupedGradInput.op, 3, groupedScratch, func(r remote) *ggml.Tensor { return GroupedGEMMGradInput(r.c, r.x[0], r.x[1], r.x[2]) }),
		remoteOp(accumulateGroupedGradWeight, 4, groupedScratch, func(r remote) *ggml.Tensor {
			return AccumulateGroupedGradWeight(r.c, r.x[0], r.x[1], r.x[2], r.x[3])
		}),
		remoteOp(gatedDeltaRule, 5, deltaScratch, func(r remote) *ggml.Tensor { return GatedDeltaRule(r.c, r.delta(0)) }),
		remoteOp(gatedDeltaRuleGrad, 6, deltaScratch, func(r remote) *ggml.Tensor {
			dq, _, _, _, _, _ := GatedDeltaRuleGrad(r.c, r.x[0], r.delta(1))
			return whole(dq)
		}),
		remoteOp(shortConvolution, 2, convScratch(1), func(r remote) *ggml.Tensor { return ShortConvolution(r.c, r.conv(0)) }),
		remoteOp(shortConvolutionGrad, 3, convScratch(2), func(r remote) *ggml.Tensor { return ShortConvolutionGrad(r.c, r.x[0], r.conv(1)) }),
	}
	for act, op := range gluGrads {
		ops = append(ops, remoteOp(op, 3, nil, func(r remote) *ggml.Tensor { return GLUGradInPlace(r.c, act, r.x[0], r.x[1], r.x[2]) }))
	}
	return slices.Clip(ops)
})

// HasTrainingOps reports whether a device computes the ops of training with a compute type, F32 or BF16: the CPU, or a server
// of package rpc on another one, in a program with this package.
func HasTrainingOps(d *ggml.Device, compute ggml.Type) bool {
	ops := trainingOps()
	if compute == ggml.BF16 {
		if !HasBF16() {
			return false
		}
		ops = remoteOps()
	}
	return !slices.ContainsFunc(ops, func(op ggml.RemoteOp) bool { return !d.HasNativeOp(op.NativeOp) })
}

// remoteOp is an op of at least so many operands.
func remoteOp(op *ggml.NativeOp, operands int, scratch func(n ggml.NativeNode) int64, build func(r remote) *ggml.Tensor) ggml.RemoteOp {
	return ggml.RemoteOp{NativeOp: op, Scratch: scratch, Rebuild: func(c *ggml.Context, n ggml.NativeNode) *ggml.Tensor {
		if len(n.Operands) < operands {
			return nil
		}
		return build(remote{c, n.Operands, n})
	}}
}

// read returns the parameters of an op.
func read[P any](n ggml.NativeNode) (p P) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&p)), unsafe.Sizeof(p)), n.Params[:])
	return p
}

// whole returns the op's result that x is a view of, or x itself.
func whole(x *ggml.Tensor) *ggml.Tensor {
	if of, isView := x.ViewSource(); isView {
		return of
	}
	return x
}

// optional returns the operand at an index; nil for 0, as [operands.addOptional] counts, and for one that does not exist.
func (r remote) optional(i C.int32_t) *ggml.Tensor {
	if i <= 0 || int(i) >= len(r.x) {
		return nil
	}
	return r.x[i]
}

func (r remote) eps() float32 { return float32(read[C.struct_kern_norm_params](r.n).eps) }

// weight is the optional weight of a norm.
func (r remote) weight() *ggml.Tensor { return r.optional(read[C.struct_kern_norm_params](r.n).weight) }

func (r remote) acc() ggml.Precision {
	if read[C.struct_kern_gemm_params](r.n).acc_f16 != 0 {
		return ggml.PrecisionF16
	}
	return ggml.PrecisionF32
}

func (r remote) pairs() (list []Pair) {
	for i := 0; i+1 < len(r.x); i += 2 {
		list = append(list, Pair{r.x[i], r.x[i+1]})
	}
	return list
}

// attention returns the operands of attention from the first on.
func (r remote) attention(first int) Attention {
	p := read[C.struct_kern_attention_params](r.n)
	a := Attention{
		Q: r.x[first], K: r.x[first+1], V: r.x[first+2], Scale: float32(p.scale), FirstVisible: r.optional(p.first_visible),
		Scores: ScoreOptions{Softcap: float32(p.softcap), MaxBias: float32(p.max_bias), Sinks: r.optional(p.sinks)},
	}
	if p.hidden > 0 {
		a.HiddenFrom, a.HiddenTo = r.optional(p.hidden), r.optional(p.hidden+1)
	}
	return a
}

func (r remote) delta(first int) DeltaRule {
	x, p := r.x[first:], read[C.struct_kern_delta_rule_params](r.n)
	return DeltaRule{Q: x[0], K: x[1], V: x[2], G: x[3], Beta: x[4], Starts: r.optional(p.starts), Read: r.optional(p.read), State: r.optional(p.state), BF16: p.bf16 != 0, Unit: float32(p.unit)}
}

func (r remote) conv(first int) ShortConv {
	x, p := r.x[first:], read[C.struct_kern_short_conv_params](r.n)
	return ShortConv{
		X: x[0], Kernel: x[1], Before: r.optional(p.before), Bias: r.optional(p.bias), Positions: r.optional(p.positions),
		Step: int(p.step), SiLU: p.silu != 0,
	}
}

// Upper bounds of the scratch memory of a thread, in bytes.

// libraryScratch is the scratch memory of the GEMM library, and of tiles, whose size is fixed.
const libraryScratch = 8 << 20

func gemmScratch(ggml.NativeNode) int64 { return libraryScratch }

// groupedScratch: the columns of an expert, gathered, and the order of all columns.
func groupedScratch(n ggml.NativeNode) int64 {
	const columns = 512
	rows, ids := int64(0), n.Operands[len(n.Operands)-1]
	for _, x := range n.Operands {
		rows = max(rows, x.Dim(0))
	}
	return 4*(columns*rows+n.Operands[0].Dim(2)+ids.NumElements()+4) + libraryScratch
}

// attentionScratch: the scores of a block of queries, as capped, and their gradients, and a row of them. The first operand
// has the shape of the queries.
func attentionScratch(n ggml.NativeNode) int64 {
	const block, uses = 128, 4
	return 4*uses*block*(n.Operands[0].Dim(2)+64) + libraryScratch
}

// bf16Scratch: the packed vectors of the keys of a head, and of a block of queries.
func bf16Scratch(n ggml.NativeNode) int64 {
	q := n.Operands[0]
	return 4*(q.Dim(2)+256)*(2*q.Dim(0)+320) + libraryScratch
}

// deltaScratch: by chunks of 64 tokens a state for each, two more, and matrices of a chunk; token by token one state of a
// block of columns for 32 tokens, and 35 more.
func deltaScratch(n ggml.NativeNode) int64 {
	tokens, size := n.Operands[0].Dim(2), n.Operands[0].Dim(0)
	chunks := 4 * ((tokens/64+3)*size*size + 64*(6*64+14*size))
	return max(chunks, (tokens+64)*(64+16*size)+size*(16<<10)) + libraryScratch
}

// convScratch: weights and gradients of a block of channels, for a block of tokens and those that reach back to it, and the first
// tokens and those before them, given the index of the kernel.
func convScratch(kernel int) func(n ggml.NativeNode) int64 {
	const channels, tokens, bytes = C.KERN_CONV_CHANNELS, C.KERN_CONV_TOKENS, 4
	return func(n ggml.NativeNode) int64 {
		taps, step, most := n.Operands[kernel].Dim(0), int64(read[C.struct_kern_short_conv_params](n).step), int64(0)
		for _, x := range n.Operands {
			most = max(most, x.Dim(1))
		}
		return bytes*channels*(taps+1+tokens+3*min((taps-1)*step, most)) + libraryScratch
	}
}
