package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"math"

	"github.com/goggml/ggml/internal/rpcwire"
)

// An rpcNode is an op as a client describes it, with its operands built.
type rpcNode struct {
	*rpcwire.Tensor
	c       *Context
	sources [C.GGML_MAX_SRC]*Tensor // nil where it has none
}

func (n *rpcNode) int(word int) int     { return int(n.Params[word]) }
func (n *rpcNode) f32(word int) float32 { return math.Float32frombits(uint32(n.Params[word])) }

// size is a size_t in two words.
func (n *rpcNode) size(word int) int64 {
	return int64(uint64(uint32(n.Params[word])) | uint64(uint32(n.Params[word+1]))<<32)
}

func (n *rpcNode) inPlace() bool { return n.ViewSource != 0 }
func (n *rpcNode) typ() Type     { return Type(n.Type) }

func (n *rpcNode) shape() []int64 {
	shape := n.shape4()
	return shape[:]
}

func (n *rpcNode) shape4() (shape [4]int64) {
	for i, size := range n.Ne {
		shape[i] = int64(size)
	}
	return shape
}

// like is a tensor of which an op takes the shape alone.
func (n *rpcNode) like(t Type) *Tensor { return n.c.NewTensor(t, n.shape()...) }

// An rpcOp builds a node by the method of Context that makes such an op, so its checks are the checks of this
// server. The result is compared with what the client says: an op that is read wrongly is refused, not computed.
type rpcOp func(n *rpcNode, a, b, c *Tensor) *Tensor

// rpcOps has the ops that a client can have; none whose parameters are addresses of functions.
var rpcOps = map[C.enum_ggml_op]rpcOp{
	// views
	C.GGML_OP_VIEW: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		return n.c.View(a, n.shape(), []int64{int64(n.Nb[1]), int64(n.Nb[2]), int64(n.Nb[3])}, n.size(0))
	},
	C.GGML_OP_RESHAPE: func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.Reshape(a, n.shape()...) },
	C.GGML_OP_PERMUTE: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		return n.c.Permute(a, [4]int{n.int(0), n.int(1), n.int(2), n.int(3)})
	},
	C.GGML_OP_TRANSPOSE: func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.Transpose(a) },

	// arithmetic
	C.GGML_OP_DUP:    unaryOr((*Context).Dup, (*Context).DupInPlace),
	C.GGML_OP_ADD:    rpcAdd,
	C.GGML_OP_ADD_ID: func(n *rpcNode, a, b, ids *Tensor) *Tensor { return n.c.AddID(a, b, ids) },
	C.GGML_OP_SUB:    binaryOr((*Context).Sub, (*Context).SubInPlace),
	C.GGML_OP_MUL:    binaryOr((*Context).Mul, (*Context).MulInPlace),
	C.GGML_OP_DIV:    binaryOr((*Context).Div, (*Context).DivInPlace),
	C.GGML_OP_SQR:    unaryOr((*Context).Sqr, (*Context).SqrInPlace),
	C.GGML_OP_SQRT:   unaryOr((*Context).Sqrt, (*Context).SqrtInPlace),
	C.GGML_OP_LOG:    unaryOr((*Context).Log, (*Context).LogInPlace),
	C.GGML_OP_SIN:    unaryOr((*Context).Sin, (*Context).SinInPlace),
	C.GGML_OP_COS:    unaryOr((*Context).Cos, (*Context).CosInPlace),
	C.GGML_OP_ACC:    partOr((*Context).Acc, (*Context).AccInPlace),
	C.GGML_OP_SET:    partOr((*Context).Set, (*Context).SetInPlace),
	C.GGML_OP_SCALE: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		if n.inPlace() {
			return n.c.ScaleBiasInPlace(a, n.f32(0), n.f32(1))
		}
		return n.c.ScaleBias(a, n.f32(0), n.f32(1))
	},
	C.GGML_OP_CLAMP: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		if n.inPlace() {
			return n.c.ClampInPlace(a, n.f32(0), n.f32(1))
		}
		return n.c.Clamp(a, n.f32(0), n.f32(1))
	},
	C.GGML_OP_FILL:       numberOr(0, (*Context).Fill, (*Context).FillInPlace),
	C.GGML_OP_LEAKY_RELU: numberOr(0, (*Context).LeakyRelu, (*Context).LeakyReluInPlace),
	C.GGML_OP_ARANGE:     func(n *rpcNode, _, _, _ *Tensor) *Tensor { return n.c.Arange(n.f32(0), n.f32(1), n.f32(2)) },
	C.GGML_OP_UNARY: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		switch u := Unary(n.int(0)); {
		case u == UnaryXIELU:
			return n.c.XIELU(a, XIELUParams{}).withParams(n, 1, 2, 3, 4)
		case n.inPlace():
			return n.c.UnaryInPlace(u, a)
		default:
			return n.c.Unary(u, a)
		}
	},
	C.GGML_OP_GLU: func(n *rpcNode, a, b, _ *Tensor) *Tensor {
		switch g := GLU(n.int(0)); {
		case g == SwiGLUOAI:
			return n.c.SwiGLUOAI(a, b, n.f32(2), n.f32(3))
		case g == SwiGLUClamp:
			return n.c.SwiGLUClamp(a, b, n.f32(3))
		case b != nil:
			return n.c.GLUSplit(g, a, b)
		default:
			return n.c.GLU(g, a, n.int(1) != 0)
		}
	},
	C.GGML_OP_SILU_BACK: func(n *rpcNode, a, b, _ *Tensor) *Tensor { return n.c.SiluBack(a, b) },

	// reductions
	C.GGML_OP_SUM:         unaryOp((*Context).Sum),
	C.GGML_OP_SUM_ROWS:    unaryOp((*Context).SumRows),
	C.GGML_OP_CUMSUM:      unaryOp((*Context).CumSum),
	C.GGML_OP_MEAN:        unaryOp((*Context).Mean),
	C.GGML_OP_ARGMAX:      unaryOp((*Context).ArgMax),
	C.GGML_OP_COUNT_EQUAL: func(n *rpcNode, a, b, _ *Tensor) *Tensor { return n.c.CountEqual(a, b) },
	C.GGML_OP_ARGSORT:     func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.ArgSort(a, SortOrder(n.int(0))) },
	C.GGML_OP_TOP_K:       func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.TopK(a, int(n.Ne[0])) },

	// norms
	C.GGML_OP_NORM:          numberOr(0, (*Context).Norm, (*Context).NormInPlace),
	C.GGML_OP_RMS_NORM:      numberOr(0, (*Context).RMSNorm, (*Context).RMSNormInPlace),
	C.GGML_OP_L2_NORM:       numberOr(0, (*Context).L2Norm, (*Context).L2NormInPlace),
	C.GGML_OP_RMS_NORM_BACK: func(n *rpcNode, a, b, _ *Tensor) *Tensor { return n.c.RMSNormBack(a, b, n.f32(0)) },
	C.GGML_OP_GROUP_NORM: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		if n.inPlace() {
			return n.c.GroupNormInPlace(a, n.int(0), n.f32(1))
		}
		return n.c.GroupNorm(a, n.int(0), n.f32(1))
	},

	// matrices
	C.GGML_OP_MUL_MAT:    func(n *rpcNode, a, b, _ *Tensor) *Tensor { return n.c.MulMat(a, b).withPrecision(n) },
	C.GGML_OP_MUL_MAT_ID: func(n *rpcNode, as, b, ids *Tensor) *Tensor { return n.c.MulMatID(as, b, ids).withPrecision(n) },
	C.GGML_OP_OUT_PROD:   func(n *rpcNode, a, b, _ *Tensor) *Tensor { return n.c.OutProd(a, b) },
	C.GGML_OP_DIAG:       unaryOp((*Context).Diag),
	C.GGML_OP_SOLVE_TRI:  func(n *rpcNode, a, b, _ *Tensor) *Tensor { return n.c.SolveTri(a, b) },
	C.GGML_OP_TRI:        func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.Tri(a, Triangle(n.int(0))) },

	// copies
	C.GGML_OP_CPY: func(n *rpcNode, a, b, _ *Tensor) *Tensor {
		if b == nil { // the tensor itself
			return n.c.Cast(a, n.typ())
		}
		return n.c.Copy(a, b)
	},
	C.GGML_OP_CONT:        func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.Cont(a, n.shape()...) },
	C.GGML_OP_REPEAT:      func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.Repeat(a, n.shape()...) },
	C.GGML_OP_REPEAT_BACK: func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.RepeatBack(a, n.like(F32)) },
	C.GGML_OP_CONCAT:      func(n *rpcNode, a, b, _ *Tensor) *Tensor { return n.c.Concat(a, b, n.int(0)) },
	C.GGML_OP_GET_ROWS:    func(n *rpcNode, a, ids, _ *Tensor) *Tensor { return n.c.GetRows(a, ids) },
	C.GGML_OP_GET_ROWS_BACK: func(n *rpcNode, grad, ids, _ *Tensor) *Tensor {
		return n.c.GetRowsBack(grad, ids, n.like(F32))
	},
	C.GGML_OP_SET_ROWS: func(n *rpcNode, b, ids, a *Tensor) *Tensor { return n.c.SetRows(a, b, ids) },

	// attention
	C.GGML_OP_DIAG_MASK_INF:  depthOr((*Context).DiagMaskInf, (*Context).DiagMaskInfInPlace),
	C.GGML_OP_DIAG_MASK_ZERO: depthOr((*Context).DiagMaskZero, (*Context).DiagMaskZeroInPlace),
	C.GGML_OP_SOFT_MAX: func(n *rpcNode, a, mask, sinks *Tensor) *Tensor {
		o := SoftMaxOptions{Mask: mask, Sinks: sinks, Scale: n.f32(0), MaxBias: n.f32(1)}
		if n.inPlace() {
			return n.c.SoftMaxExtInPlace(a, o)
		}
		return n.c.SoftMaxExt(a, o)
	},
	C.GGML_OP_SOFT_MAX_BACK: func(n *rpcNode, grad, y, _ *Tensor) *Tensor {
		if n.inPlace() {
			return n.c.SoftMaxBackInPlace(grad, y, n.f32(0))
		}
		return n.c.SoftMaxBack(grad, y, n.f32(0))
	},
	C.GGML_OP_ROPE: func(n *rpcNode, a, pos, factors *Tensor) *Tensor {
		if n.inPlace() {
			return n.c.RoPEInPlace(a, pos, factors, n.rope())
		}
		return n.c.RoPE(a, pos, factors, n.rope())
	},
	C.GGML_OP_ROPE_BACK: func(n *rpcNode, a, pos, factors *Tensor) *Tensor { return n.c.RoPEBack(a, pos, factors, n.rope()) },
	C.GGML_OP_FLASH_ATTN_EXT: func(n *rpcNode, q, k, v *Tensor) *Tensor {
		o := AttentionOptions{Mask: n.sources[3], Sinks: n.sources[4], Scale: n.f32(0), MaxBias: n.f32(1), Softcap: n.f32(2)}
		return n.c.FlashAttention(q, k, v, o).withPrecision(n)
	},
	C.GGML_OP_LIGHTNING_INDEXER: func(n *rpcNode, q, k, weights *Tensor) *Tensor {
		return n.c.LightningIndexer(q, k, weights, n.sources[3])
	},

	// convolutions and images
	C.GGML_OP_IM2COL: func(n *rpcNode, kernel, data, _ *Tensor) *Tensor {
		return n.c.Im2Col(kernel, data, n.typ(), n.planes()...)
	},
	C.GGML_OP_IM2COL_BACK: func(n *rpcNode, grad, kernel, _ *Tensor) *Tensor {
		return n.c.Im2ColBack(grad, kernel, n.shape4(), n.planes()...)
	},
	C.GGML_OP_IM2COL_3D: func(n *rpcNode, kernel, data, _ *Tensor) *Tensor {
		return n.c.Im2Col3D(kernel, data, Im2Col3DOptions{Channels: n.int(9), Type: n.typ(), Dims: n.volume()})
	},
	C.GGML_OP_COL2IM_1D: func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.Col2Im1D(a, n.int(0), n.int(1), n.int(2)) },
	C.GGML_OP_CONV_2D: func(n *rpcNode, kernel, data, _ *Tensor) *Tensor {
		return n.c.Conv2DDirect(kernel, data, n.image())
	},
	C.GGML_OP_CONV_2D_DW: func(n *rpcNode, kernel, data, _ *Tensor) *Tensor {
		return n.c.ConvDepthwise2DDirect(kernel, data, n.image())
	},
	C.GGML_OP_CONV_3D: func(n *rpcNode, kernel, data, _ *Tensor) *Tensor {
		return n.c.Conv3DDirect(kernel, data, n.int(9), n.volume())
	},
	C.GGML_OP_CONV_TRANSPOSE_1D: func(n *rpcNode, kernel, data, _ *Tensor) *Tensor {
		return n.c.ConvTranspose1D(kernel, data, n.int(0))
	},
	C.GGML_OP_CONV_TRANSPOSE_2D: func(n *rpcNode, kernel, data, _ *Tensor) *Tensor {
		return n.c.ConvTranspose2D(kernel, data, n.int(0))
	},
	C.GGML_OP_POOL_1D: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		return n.bounded(n.c.Pool1D(a, Pool(n.int(0)), PoolDim{n.int(1), n.int(2), n.int(3)}), n.int(1))
	},
	C.GGML_OP_POOL_2D: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		return n.bounded(n.c.Pool2D(a, Pool(n.int(0)), n.windows()), n.int(1), n.int(2))
	},
	C.GGML_OP_POOL_2D_BACK: func(n *rpcNode, grad, x, _ *Tensor) *Tensor {
		return n.bounded(n.c.Pool2DBack(grad, x, Pool(n.int(0)), n.windows()), n.int(1), n.int(2))
	},
	C.GGML_OP_UPSCALE: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		return n.c.Interpolate(a, ScaleMode(n.int(0)), n.shape()...)
	},
	C.GGML_OP_PAD: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		before, after := [4]int{n.int(0), n.int(2), n.int(4), n.int(6)}, [4]int{n.int(1), n.int(3), n.int(5), n.int(7)}
		if n.int(8) != 0 {
			return n.c.PadCircular(a, before, after)
		}
		return n.c.PadExt(a, before, after)
	},
	C.GGML_OP_PAD_REFLECT_1D: func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.PadReflect1D(a, n.int(0), n.int(1)) },
	C.GGML_OP_ROLL: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		return n.c.Roll(a, [4]int{n.int(0), n.int(1), n.int(2), n.int(3)})
	},
	C.GGML_OP_TIMESTEP_EMBEDDING: func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.TimestepEmbedding(a, n.int(0), n.int(1)) },
	C.GGML_OP_WIN_PART:           func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.WinPart(a, n.int(2)) },
	C.GGML_OP_WIN_UNPART: func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		return n.c.WinUnpart(a, int(n.Ne[1]), int(n.Ne[2]))
	},
	C.GGML_OP_GET_REL_POS: func(n *rpcNode, a, _, _ *Tensor) *Tensor { return n.c.GetRelPos(a, int(n.Ne[1])) },
	C.GGML_OP_ADD_REL_POS: func(n *rpcNode, a, pw, ph *Tensor) *Tensor {
		if n.inPlace() {
			return n.c.AddRelPosInPlace(a, pw, ph)
		}
		return n.c.AddRelPos(a, pw, ph)
	},

	// recurrent layers
	C.GGML_OP_SSM_CONV: func(n *rpcNode, x, kernel, _ *Tensor) *Tensor { return n.c.SSMConv(x, kernel) },
	C.GGML_OP_SSM_SCAN: func(n *rpcNode, state, x, dt *Tensor) *Tensor {
		o := SSMScanOperands{State: state, X: x, DT: dt, A: n.sources[3], B: n.sources[4], C: n.sources[5], IDs: n.sources[6]}
		return n.c.ssmScan(o, n.int(0) > 1)
	},
	C.GGML_OP_RWKV_WKV6: func(n *rpcNode, k, v, r *Tensor) *Tensor {
		return n.c.RWKV6(RWKV6Operands{K: k, V: v, R: r, TimeFirst: n.sources[3], TimeDecay: n.sources[4], State: n.sources[5]})
	},
	C.GGML_OP_RWKV_WKV7: func(n *rpcNode, r, w, k *Tensor) *Tensor {
		return n.c.RWKV7(RWKV7Operands{R: r, W: w, K: k, V: n.sources[3], A: n.sources[4], B: n.sources[5], State: n.sources[6]})
	},
	C.GGML_OP_GATED_LINEAR_ATTN: func(n *rpcNode, k, v, q *Tensor) *Tensor {
		return n.c.GatedLinearAttention(GatedLinearAttentionOperands{K: k, V: v, Q: q, G: n.sources[3], State: n.sources[4], Scale: n.f32(0)})
	},
	C.GGML_OP_GATED_DELTA_NET: func(n *rpcNode, q, k, v *Tensor) *Tensor {
		o := GatedDeltaNetOperands{Q: q, K: k, V: v, G: n.sources[3], Beta: n.sources[4], State: n.sources[5]}
		return n.c.gatedDeltaNet(o, n.int(0) > 1)
	},
	C.GGML_OP_DSV4_HC_COMB: func(n *rpcNode, mixes, scale, base *Tensor) *Tensor {
		return n.c.HyperConnectComb(mixes, scale, base, Sinkhorn{Eps: n.f32(0), Iterations: n.int(1)})
	},
	C.GGML_OP_DSV4_HC_PRE: func(n *rpcNode, x, weights, _ *Tensor) *Tensor {
		if n.int(1) != 0 {
			return n.c.HyperConnectPreGated(x, weights, n.f32(0))
		}
		return n.c.HyperConnectPre(x, weights)
	},
	C.GGML_OP_DSV4_HC_POST: func(n *rpcNode, x, residual, post *Tensor) *Tensor {
		return n.c.HyperConnectPost(x, residual, post, n.sources[3])
	},

	// training
	C.GGML_OP_CROSS_ENTROPY_LOSS: func(n *rpcNode, a, b, _ *Tensor) *Tensor { return n.c.CrossEntropyLoss(a, b) },
	C.GGML_OP_CROSS_ENTROPY_LOSS_BACK: func(n *rpcNode, a, b, c *Tensor) *Tensor {
		return n.c.CrossEntropyLossBack(a, b, c)
	},
	C.GGML_OP_OPT_STEP_ADAMW: func(n *rpcNode, a, grad, m *Tensor) *Tensor {
		return n.c.OptStepAdamW(AdamWOperands{Param: a, Grad: grad, M: m, V: n.sources[3], Settings: n.sources[4]})
	},
	C.GGML_OP_OPT_STEP_SGD: func(n *rpcNode, a, grad, params *Tensor) *Tensor { return n.c.OptStepSGD(a, grad, params) },
}

func unaryOp(f func(*Context, *Tensor) *Tensor) rpcOp {
	return func(n *rpcNode, a, _, _ *Tensor) *Tensor { return f(n.c, a) }
}

func unaryOr(f, inPlace func(*Context, *Tensor) *Tensor) rpcOp {
	return func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		if n.inPlace() {
			return inPlace(n.c, a)
		}
		return f(n.c, a)
	}
}

func binaryOr(f, inPlace func(_ *Context, a, b *Tensor) *Tensor) rpcOp {
	return func(n *rpcNode, a, b, _ *Tensor) *Tensor {
		if n.inPlace() {
			return inPlace(n.c, a, b)
		}
		return f(n.c, a, b)
	}
}

func numberOr(word int, f, inPlace func(*Context, *Tensor, float32) *Tensor) rpcOp {
	return func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		if n.inPlace() {
			return inPlace(n.c, a, n.f32(word))
		}
		return f(n.c, a, n.f32(word))
	}
}

func depthOr(f, inPlace func(*Context, *Tensor, int) *Tensor) rpcOp {
	return func(n *rpcNode, a, _, _ *Tensor) *Tensor {
		if n.inPlace() {
			return inPlace(n.c, a, n.int(0))
		}
		return f(n.c, a, n.int(0))
	}
}

func partOr(f, inPlace func(_ *Context, a, b *Tensor, strides [3]int64, offset int64) *Tensor) rpcOp {
	return func(n *rpcNode, a, b, _ *Tensor) *Tensor {
		strides, offset := [3]int64{int64(n.int(0)), int64(n.int(1)), int64(n.int(2))}, int64(n.int(3))
		if n.inPlace() {
			return inPlace(n.c, a, b, strides, offset)
		}
		return f(n.c, a, b, strides, offset)
	}
}

func rpcAdd(n *rpcNode, a, b, _ *Tensor) *Tensor {
	switch {
	case n.inPlace():
		return n.c.AddInPlace(a, b)
	case a != nil && a.typ != n.typ():
		return n.c.AddCast(a, b, n.typ())
	case a != nil && a.typ.IsQuantized():
		return n.c.AddCast(a, b, n.typ())
	}
	return n.c.Add(a, b)
}

func (n *rpcNode) rope() RoPE {
	return RoPE{
		Dims: n.int(1), Mode: RoPEMode(n.int(2)), TrainedCtx: n.int(4), FreqBase: n.f32(5), FreqScale: n.f32(6),
		ExtFactor: n.f32(7), AttnFactor: n.f32(8), BetaFast: n.f32(9), BetaSlow: n.f32(10),
		Sections: [4]int{n.int(11), n.int(12), n.int(13), n.int(14)}, Offset: n.int(15),
	}
}

// planes are the dimensions of im2col, of which there are one or two.
func (n *rpcNode) planes() []ConvDim {
	dims := n.image()
	if n.int(6) == 0 {
		return dims[:1]
	}
	return dims[:]
}

func (n *rpcNode) image() [2]ConvDim {
	return [2]ConvDim{{n.int(0), n.int(2), n.int(4)}, {n.int(1), n.int(3), n.int(5)}}
}

func (n *rpcNode) volume() [3]ConvDim {
	return [3]ConvDim{{n.int(0), n.int(3), n.int(6)}, {n.int(1), n.int(4), n.int(7)}, {n.int(2), n.int(5), n.int(8)}}
}

func (n *rpcNode) windows() [2]PoolDim {
	return [2]PoolDim{{n.int(1), n.int(3), n.int(5)}, {n.int(2), n.int(4), n.int(6)}}
}

// bounded refuses windows that take time out of proportion to the memory: most of what is in them is padding.
func (n *rpcNode) bounded(t *Tensor, window ...int) *Tensor {
	steps := 1.0
	for _, size := range window {
		steps *= float64(size)
	}
	if a := n.sources[0]; a != nil && t.t != nil && steps > 16*float64(a.NumElements()+t.NumElements()) {
		n.c.fail(t.errorf(nil, "the windows have %.0f elements each, most of them padding", steps))
	}
	return t
}

// withParams takes over words of the parameters that are numbers to compute with, whatever they are.
func (t *Tensor) withParams(n *rpcNode, words ...int) *Tensor {
	if t != nil && t.t != nil {
		for _, w := range words {
			t.t.op_params[w] = C.int32_t(n.Params[w])
		}
	}
	return t
}

// withPrecision sets the settings of a client's product or attention beside its operands.
func (t *Tensor) withPrecision(n *rpcNode) *Tensor {
	if n.Op == C.GGML_OP_FLASH_ATTN_EXT {
		if p := n.int(3); p != 0 {
			t.SetAccPrecision(Precision(p))
		}
		n.Params[4] = 0 // the client's promise about its mask ([Tensor.SetMaxKeys]) is not trusted
		return t
	}
	if p := n.int(0); p != 0 {
		t.SetAccPrecision(Precision(p))
	}
	if p := n.int(3); p != 0 {
		t.SetSourcePrecision(1, Precision(p))
	}
	if n.int(1) == C.GGML_HINT_SRC0_IS_HADAMARD {
		t.SetHadamard()
	}
	return t
}
