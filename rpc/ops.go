package rpc

import (
	"fmt"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
)

// maxSources is the maximum number of operands of an op.
const maxSources = len(rpcwire.Tensor{}.Sources)

// A node is a client's description of an op, with its operands built.
type node struct {
	*rpcwire.Tensor
	c       *ggml.Context
	sources [maxSources]*ggml.Tensor // nil if absent
	err     error                    // of a check beyond the method's own
}

func (n *node) int(word int) int     { return int(n.Params[word]) }
func (n *node) f32(word int) float32 { return math.Float32frombits(uint32(n.Params[word])) }

// size decodes a size_t from two words.
func (n *node) size(word int) int64 {
	return int64(uint64(uint32(n.Params[word])) | uint64(uint32(n.Params[word+1]))<<32)
}

func (n *node) inPlace() bool  { return n.ViewSource != 0 }
func (n *node) typ() ggml.Type { return ggml.Type(n.Type) }

func (n *node) shape() []int64 {
	shape := n.shape4()
	return shape[:]
}

func (n *node) shape4() (shape [4]int64) {
	for i, size := range n.Ne {
		shape[i] = int64(size)
	}
	return shape
}

// like returns a tensor for an op that uses only its shape.
func (n *node) like(t ggml.Type) *ggml.Tensor { return n.c.NewTensor(t, n.shape()...) }

// An opBuilder builds a node by the method of ggml.Context that makes such an op, so its checks are
// the checks of this server. The result is compared with the client's description: a wrongly
// decoded op is refused, not computed.
type opBuilder func(n *node, a, b, c *ggml.Tensor) *ggml.Tensor

// ops lists the ops available to clients; none has a function's address as a parameter.
var ops = map[string]opBuilder{
	// views
	"view": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.View(a, n.shape(), []int64{int64(n.Nb[1]), int64(n.Nb[2]), int64(n.Nb[3])}, n.size(0))
	},
	"reshape": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.Reshape(a, n.shape()...) },
	"permute": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.Permute(a, [4]int{n.int(0), n.int(1), n.int(2), n.int(3)})
	},
	"transpose": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.Transpose(a) },

	// arithmetic
	"dup":    unaryOr((*ggml.Context).Dup, (*ggml.Context).DupInPlace),
	"add":    add,
	"add_id": func(n *node, a, b, ids *ggml.Tensor) *ggml.Tensor { return n.c.AddID(a, b, ids) },
	"sub":    binaryOr((*ggml.Context).Sub, (*ggml.Context).SubInPlace),
	"mul":    binaryOr((*ggml.Context).Mul, (*ggml.Context).MulInPlace),
	"div":    binaryOr((*ggml.Context).Div, (*ggml.Context).DivInPlace),
	"sqr":    unaryOr((*ggml.Context).Sqr, (*ggml.Context).SqrInPlace),
	"sqrt":   unaryOr((*ggml.Context).Sqrt, (*ggml.Context).SqrtInPlace),
	"log":    unaryOr((*ggml.Context).Log, (*ggml.Context).LogInPlace),
	"sin":    unaryOr((*ggml.Context).Sin, (*ggml.Context).SinInPlace),
	"cos":    unaryOr((*ggml.Context).Cos, (*ggml.Context).CosInPlace),
	"acc":    partOr((*ggml.Context).Acc, (*ggml.Context).AccInPlace),
	"set":    partOr((*ggml.Context).Set, (*ggml.Context).SetInPlace),
	"scale": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		if n.inPlace() {
			return n.c.ScaleBiasInPlace(a, n.f32(0), n.f32(1))
		}
		return n.c.ScaleBias(a, n.f32(0), n.f32(1))
	},
	"clamp": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		if n.inPlace() {
			return n.c.ClampInPlace(a, n.f32(0), n.f32(1))
		}
		return n.c.Clamp(a, n.f32(0), n.f32(1))
	},
	"fill":       numberOr(0, (*ggml.Context).Fill, (*ggml.Context).FillInPlace),
	"leaky_relu": numberOr(0, (*ggml.Context).LeakyRelu, (*ggml.Context).LeakyReluInPlace),
	"arange":     func(n *node, _, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.Arange(n.f32(0), n.f32(1), n.f32(2)) },
	"unary": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		switch u := ggml.Unary(n.int(0)); {
		case u == ggml.UnaryXIELU:
			return n.c.XIELU(a, ggml.XIELUParams{AlphaN: n.f32(1), AlphaP: n.f32(2), Beta: n.f32(3), Eps: n.f32(4), Computed: true})
		case n.inPlace():
			return n.c.UnaryInPlace(u, a)
		default:
			return n.c.Unary(u, a)
		}
	},
	"glu": func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor {
		switch g := ggml.GLU(n.int(0)); {
		case g == ggml.SwiGLUOAI:
			return n.c.SwiGLUOAI(a, b, n.f32(2), n.f32(3))
		case g == ggml.SwiGLUClamp:
			return n.c.SwiGLUClamp(a, b, n.f32(3))
		case b != nil:
			return n.c.GLUSplit(g, a, b)
		default:
			return n.c.GLU(g, a, n.int(1) != 0)
		}
	},
	"silu_back": func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor { return n.c.SiluBack(a, b) },

	// reductions
	"sum":         unaryOp((*ggml.Context).Sum),
	"sum_rows":    unaryOp((*ggml.Context).SumRows),
	"cumsum":      unaryOp((*ggml.Context).CumSum),
	"mean":        unaryOp((*ggml.Context).Mean),
	"argmax":      unaryOp((*ggml.Context).ArgMax),
	"count_equal": func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor { return n.c.CountEqual(a, b) },
	"argsort":     func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.ArgSort(a, ggml.SortOrder(n.int(0))) },
	"top_k":       func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.TopK(a, int(n.Ne[0])) },

	// norms
	"norm":          numberOr(0, (*ggml.Context).Norm, (*ggml.Context).NormInPlace),
	"rms_norm":      numberOr(0, (*ggml.Context).RMSNorm, (*ggml.Context).RMSNormInPlace),
	"l2_norm":       numberOr(0, (*ggml.Context).L2Norm, (*ggml.Context).L2NormInPlace),
	"rms_norm_back": func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor { return n.c.RMSNormBack(a, b, n.f32(0)) },
	"group_norm": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		if n.inPlace() {
			return n.c.GroupNormInPlace(a, n.int(0), n.f32(1))
		}
		return n.c.GroupNorm(a, n.int(0), n.f32(1))
	},

	// matrices
	"mul_mat":    func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor { return n.withPrecision(n.c.MulMat(a, b)) },
	"mul_mat_id": func(n *node, as, b, ids *ggml.Tensor) *ggml.Tensor { return n.withPrecision(n.c.MulMatID(as, b, ids)) },
	"out_prod":   func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor { return n.c.OutProd(a, b) },
	"diag":       unaryOp((*ggml.Context).Diag),
	"solve_tri":  func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor { return n.c.SolveTri(a, b) },
	"tri":        func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.Tri(a, ggml.Triangle(n.int(0))) },

	// copies
	"cpy": func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor {
		if b == nil { // the tensor itself
			return n.c.Cast(a, n.typ())
		}
		return n.c.Copy(a, b)
	},
	"cont":        func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.Cont(a, n.shape()...) },
	"repeat":      func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.Repeat(a, n.shape()...) },
	"repeat_back": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.RepeatBack(a, n.like(ggml.F32)) },
	"concat":      func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor { return n.c.Concat(a, b, n.int(0)) },
	"get_rows":    func(n *node, a, ids, _ *ggml.Tensor) *ggml.Tensor { return n.c.GetRows(a, ids) },
	"get_rows_back": func(n *node, grad, ids, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.GetRowsBack(grad, ids, n.like(ggml.F32))
	},
	"set_rows": func(n *node, b, ids, a *ggml.Tensor) *ggml.Tensor { return n.c.SetRows(a, b, ids) },

	// attention
	"diag_mask_inf":  depthOr((*ggml.Context).DiagMaskInf, (*ggml.Context).DiagMaskInfInPlace),
	"diag_mask_zero": depthOr((*ggml.Context).DiagMaskZero, (*ggml.Context).DiagMaskZeroInPlace),
	"soft_max": func(n *node, a, mask, sinks *ggml.Tensor) *ggml.Tensor {
		o := ggml.SoftMaxOptions{Mask: mask, Sinks: sinks, Scale: n.f32(0), MaxBias: n.f32(1)}
		if n.inPlace() {
			return n.c.SoftMaxExtInPlace(a, o)
		}
		return n.c.SoftMaxExt(a, o)
	},
	"soft_max_back": func(n *node, grad, y, _ *ggml.Tensor) *ggml.Tensor {
		if n.inPlace() {
			return n.c.SoftMaxBackInPlace(grad, y, n.f32(0))
		}
		return n.c.SoftMaxBack(grad, y, n.f32(0))
	},
	"rope": func(n *node, a, pos, factors *ggml.Tensor) *ggml.Tensor {
		if n.inPlace() {
			return n.c.RoPEInPlace(a, pos, factors, n.rope())
		}
		return n.c.RoPE(a, pos, factors, n.rope())
	},
	"rope_back": func(n *node, a, pos, factors *ggml.Tensor) *ggml.Tensor {
		return n.c.RoPEBack(a, pos, factors, n.rope())
	},
	"flash_attn_ext": func(n *node, q, k, v *ggml.Tensor) *ggml.Tensor {
		o := ggml.AttentionOptions{Mask: n.sources[3], Sinks: n.sources[4], Scale: n.f32(0), MaxBias: n.f32(1), Softcap: n.f32(2)}
		return n.withAttentionPrecision(n.c.FlashAttention(q, k, v, o))
	},
	"lightning_indexer": func(n *node, q, k, weights *ggml.Tensor) *ggml.Tensor {
		return n.c.LightningIndexer(q, k, weights, n.sources[3])
	},

	// convolutions and images
	"im2col": func(n *node, kernel, data, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.Im2Col(kernel, data, n.typ(), n.planes()...)
	},
	"im2col_back": func(n *node, grad, kernel, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.Im2ColBack(grad, kernel, n.shape4(), n.planes()...)
	},
	"im2col_3d": func(n *node, kernel, data, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.Im2Col3D(kernel, data, ggml.Im2Col3DOptions{Channels: n.int(9), Type: n.typ(), Dims: n.volume()})
	},
	"col2im_1d": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.Col2Im1D(a, n.int(0), n.int(1), n.int(2)) },
	"conv_2d": func(n *node, kernel, data, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.Conv2DDirect(kernel, data, n.image())
	},
	"conv_2d_dw": func(n *node, kernel, data, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.ConvDepthwise2DDirect(kernel, data, n.image())
	},
	"conv_3d": func(n *node, kernel, data, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.Conv3DDirect(kernel, data, n.int(9), n.volume())
	},
	"conv_transpose_1d": func(n *node, kernel, data, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.ConvTranspose1D(kernel, data, n.int(0))
	},
	"conv_transpose_2d": func(n *node, kernel, data, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.ConvTranspose2D(kernel, data, n.int(0))
	},
	"pool_1d": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		return n.bounded(n.c.Pool1D(a, ggml.Pool(n.int(0)), n.pool(1, 2, 3)), n.int(1))
	},
	"pool_2d": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		return n.bounded(n.c.Pool2D(a, ggml.Pool(n.int(0)), n.windows()), n.int(1), n.int(2))
	},
	"pool_2d_back": func(n *node, grad, x, _ *ggml.Tensor) *ggml.Tensor {
		return n.bounded(n.c.Pool2DBack(grad, x, ggml.Pool(n.int(0)), n.windows()), n.int(1), n.int(2))
	},
	"upscale": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.Interpolate(a, ggml.ScaleMode(n.int(0)), n.shape()...)
	},
	"pad": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		before, after := [4]int{n.int(0), n.int(2), n.int(4), n.int(6)}, [4]int{n.int(1), n.int(3), n.int(5), n.int(7)}
		if n.int(8) != 0 {
			return n.c.PadCircular(a, before, after)
		}
		return n.c.PadExt(a, before, after)
	},
	"pad_reflect_1d": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.PadReflect1D(a, n.int(0), n.int(1)) },
	"roll": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.Roll(a, [4]int{n.int(0), n.int(1), n.int(2), n.int(3)})
	},
	"timestep_embedding": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.TimestepEmbedding(a, n.int(0), n.int(1)) },
	"win_part":           func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.WinPart(a, n.int(2)) },
	"win_unpart": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		return n.c.WinUnpart(a, int(n.Ne[1]), int(n.Ne[2]))
	},
	"get_rel_pos": func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return n.c.GetRelPos(a, int(n.Ne[1])) },
	"add_rel_pos": func(n *node, a, pw, ph *ggml.Tensor) *ggml.Tensor {
		if n.inPlace() {
			return n.c.AddRelPosInPlace(a, pw, ph)
		}
		return n.c.AddRelPos(a, pw, ph)
	},

	// recurrent layers
	"ssm_conv": func(n *node, x, kernel, _ *ggml.Tensor) *ggml.Tensor { return n.c.SSMConv(x, kernel) },
	"ssm_scan": func(n *node, state, x, dt *ggml.Tensor) *ggml.Tensor {
		o := ggml.SSMScanOperands{State: state, X: x, DT: dt, A: n.sources[3], B: n.sources[4], C: n.sources[5], IDs: n.sources[6]}
		if n.int(0) > 1 {
			return n.c.SSMScanStates(o)
		}
		return n.c.SSMScan(o)
	},
	"rwkv_wkv6": func(n *node, k, v, r *ggml.Tensor) *ggml.Tensor {
		return n.c.RWKV6(ggml.RWKV6Operands{K: k, V: v, R: r, TimeFirst: n.sources[3], TimeDecay: n.sources[4], State: n.sources[5]})
	},
	"rwkv_wkv7": func(n *node, r, w, k *ggml.Tensor) *ggml.Tensor {
		return n.c.RWKV7(ggml.RWKV7Operands{R: r, W: w, K: k, V: n.sources[3], A: n.sources[4], B: n.sources[5], State: n.sources[6]})
	},
	"gated_linear_attn": func(n *node, k, v, q *ggml.Tensor) *ggml.Tensor {
		return n.c.GatedLinearAttention(ggml.GatedLinearAttentionOperands{K: k, V: v, Q: q, G: n.sources[3], State: n.sources[4], Scale: n.f32(0)})
	},
	"gated_delta_net": func(n *node, q, k, v *ggml.Tensor) *ggml.Tensor {
		o := ggml.GatedDeltaNetOperands{Q: q, K: k, V: v, G: n.sources[3], Beta: n.sources[4], State: n.sources[5]}
		if n.int(0) > 1 {
			return n.c.GatedDeltaNetStates(o)
		}
		return n.c.GatedDeltaNet(o)
	},
	"dsv4_hc_comb": func(n *node, mixes, scale, base *ggml.Tensor) *ggml.Tensor {
		return n.c.HyperConnectComb(mixes, scale, base, ggml.Sinkhorn{Eps: n.f32(0), Iterations: n.int(1)})
	},
	"dsv4_hc_pre": func(n *node, x, weights, _ *ggml.Tensor) *ggml.Tensor {
		if n.int(1) != 0 {
			return n.c.HyperConnectPreGated(x, weights, n.f32(0))
		}
		return n.c.HyperConnectPre(x, weights)
	},
	"dsv4_hc_post": func(n *node, x, residual, post *ggml.Tensor) *ggml.Tensor {
		return n.c.HyperConnectPost(x, residual, post, n.sources[3])
	},

	// training
	"cross_entropy_loss": func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor { return n.c.CrossEntropyLoss(a, b) },
	"cross_entropy_loss_back": func(n *node, a, b, c *ggml.Tensor) *ggml.Tensor {
		return n.c.CrossEntropyLossBack(a, b, c)
	},
	"opt_step_adamw": func(n *node, a, grad, m *ggml.Tensor) *ggml.Tensor {
		return n.c.OptStepAdamW(ggml.AdamWOperands{Param: a, Grad: grad, M: m, V: n.sources[3], Settings: n.sources[4]})
	},
	"opt_step_sgd": func(n *node, a, grad, params *ggml.Tensor) *ggml.Tensor { return n.c.OptStepSGD(a, grad, params) },
}

func unaryOp(f func(*ggml.Context, *ggml.Tensor) *ggml.Tensor) opBuilder {
	return func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor { return f(n.c, a) }
}

func unaryOr(f, inPlace func(*ggml.Context, *ggml.Tensor) *ggml.Tensor) opBuilder {
	return func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		if n.inPlace() {
			return inPlace(n.c, a)
		}
		return f(n.c, a)
	}
}

func binaryOr(f, inPlace func(_ *ggml.Context, a, b *ggml.Tensor) *ggml.Tensor) opBuilder {
	return func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor {
		if n.inPlace() {
			return inPlace(n.c, a, b)
		}
		return f(n.c, a, b)
	}
}

func numberOr(word int, f, inPlace func(*ggml.Context, *ggml.Tensor, float32) *ggml.Tensor) opBuilder {
	return func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		if n.inPlace() {
			return inPlace(n.c, a, n.f32(word))
		}
		return f(n.c, a, n.f32(word))
	}
}

func depthOr(f, inPlace func(*ggml.Context, *ggml.Tensor, int) *ggml.Tensor) opBuilder {
	return func(n *node, a, _, _ *ggml.Tensor) *ggml.Tensor {
		if n.inPlace() {
			return inPlace(n.c, a, n.int(0))
		}
		return f(n.c, a, n.int(0))
	}
}

func partOr(f, inPlace func(_ *ggml.Context, a, b *ggml.Tensor, strides [3]int64, offset int64) *ggml.Tensor) opBuilder {
	return func(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor {
		strides, offset := [3]int64{int64(n.int(0)), int64(n.int(1)), int64(n.int(2))}, int64(n.int(3))
		if n.inPlace() {
			return inPlace(n.c, a, b, strides, offset)
		}
		return f(n.c, a, b, strides, offset)
	}
}

func add(n *node, a, b, _ *ggml.Tensor) *ggml.Tensor {
	switch {
	case n.inPlace():
		return n.c.AddInPlace(a, b)
	case a != nil && a.Type() != n.typ():
		return n.c.AddCast(a, b, n.typ())
	case a != nil && a.Type().IsQuantized():
		return n.c.AddCast(a, b, n.typ())
	}
	return n.c.Add(a, b)
}

func (n *node) rope() ggml.RoPE {
	return ggml.RoPE{
		Dims: n.int(1), Mode: ggml.RoPEMode(n.int(2)), TrainedCtx: n.int(4), FreqBase: n.f32(5), FreqScale: n.f32(6),
		ExtFactor: n.f32(7), AttnFactor: n.f32(8), BetaFast: n.f32(9), BetaSlow: n.f32(10),
		Sections: [4]int{n.int(11), n.int(12), n.int(13), n.int(14)}, Offset: n.int(15),
	}
}

// planes returns the dimensions of im2col, one or two.
func (n *node) planes() []ggml.ConvDim {
	dims := n.image()
	if n.int(6) == 0 {
		return dims[:1]
	}
	return dims[:]
}

func (n *node) image() [2]ggml.ConvDim {
	return [2]ggml.ConvDim{n.conv(0, 2, 4), n.conv(1, 3, 5)}
}

func (n *node) volume() [3]ggml.ConvDim {
	return [3]ggml.ConvDim{n.conv(0, 3, 6), n.conv(1, 4, 7), n.conv(2, 5, 8)}
}

func (n *node) conv(stride, padding, dilation int) ggml.ConvDim {
	return ggml.ConvDim{Stride: n.int(stride), Padding: n.int(padding), Dilation: n.int(dilation)}
}

func (n *node) windows() [2]ggml.PoolDim {
	return [2]ggml.PoolDim{n.pool(1, 3, 5), n.pool(2, 4, 6)}
}

func (n *node) pool(size, stride, padding int) ggml.PoolDim {
	return ggml.PoolDim{Size: n.int(size), Stride: n.int(stride), Padding: n.int(padding)}
}

// bounded refuses windows whose time is out of proportion to the memory: they contain mostly
// padding.
func (n *node) bounded(t *ggml.Tensor, window ...int) *ggml.Tensor {
	steps := 1.0
	for _, size := range window {
		steps *= float64(size)
	}
	if a := n.sources[0]; a != nil && steps > 16*float64(a.NumElements()+t.NumElements()) {
		n.err = fmt.Errorf("the windows have %.0f elements each, most of them padding", steps)
	}
	return t
}

// withPrecision sets the precision settings of a client's product.
func (n *node) withPrecision(t *ggml.Tensor) *ggml.Tensor {
	if p := n.int(0); p != 0 {
		t.SetAccPrecision(ggml.Precision(p))
	}
	if p := n.int(3); p != 0 {
		t.SetSourcePrecision(1, ggml.Precision(p))
	}
	if n.int(1) != 0 {
		t.SetHadamard()
	}
	return t
}

// withAttentionPrecision sets the precision of attention.
func (n *node) withAttentionPrecision(t *ggml.Tensor) *ggml.Tensor {
	if p := n.int(3); p != 0 {
		t.SetAccPrecision(ggml.Precision(p))
	}
	n.Params[4] = 0 // the client's promise about its mask ([ggml.Tensor.SetMaxKeys]) is not trusted
	return t
}
