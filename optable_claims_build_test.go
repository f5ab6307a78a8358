package ggml_test

import (
	"math"
	"slices"

	"github.com/goggml/ggml"
)

// int and float return a parameter of the op.
func (k *claim) int(i int) int {
	if i >= len(k.params) {
		return 0
	}
	return int(k.params[i])
}

func (k *claim) float(i int) float32 { return math.Float32frombits(uint32(k.int(i))) }

// conv returns the parameters of a convolution: the strides of n dimensions, then the paddings,
// then the dilations.
func (k *claim) conv(n, i int) ggml.ConvDim {
	return ggml.ConvDim{Stride: k.int(i), Padding: k.int(n + i), Dilation: k.int(2*n + i)}
}

func (k *claim) conv2() [2]ggml.ConvDim { return [2]ggml.ConvDim{k.conv(2, 0), k.conv(2, 1)} }

func (k *claim) conv3() [3]ggml.ConvDim {
	return [3]ggml.ConvDim{k.conv(3, 0), k.conv(3, 1), k.conv(3, 2)}
}

func (k *claim) strides() [3]int64 {
	return [3]int64{int64(k.int(0)), int64(k.int(1)), int64(k.int(2))}
}

// states selects the form of a recurrence that returns the last state, or the states after each
// step; the steps are in dimension 2 of an operand.
func states[F any](k *claim, operand int, last, all F) (f F, ok bool) {
	switch int64(k.int(0)) {
	case 1:
		return last, true
	case k.operands[operand].ne[2]:
		return all, true
	}
	return f, false
}

func (k *claim) rope() ggml.RoPE {
	r := ggml.RoPE{
		Dims: k.int(1), Mode: ggml.RoPEMode(k.int(2)), TrainedCtx: k.int(4), FreqBase: k.float(5), FreqScale: k.float(6),
		ExtFactor: k.float(7), AttnFactor: k.float(8), BetaFast: k.float(9), BetaSlow: k.float(10), Offset: k.int(15),
	}
	for i := range r.Sections {
		r.Sections[i] = k.int(11 + i)
	}
	return r
}

func (k *claim) softMax(x []*ggml.Tensor) ggml.SoftMaxOptions {
	return ggml.SoftMaxOptions{Mask: optional(x, 1), Sinks: optional(x, 2), Scale: k.float(0), MaxBias: k.float(1)}
}

// A claimBuilder builds the op of a claim from its operands.
type claimBuilder func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor

func of1(f func(c *ctx, a *ggml.Tensor) *ggml.Tensor) claimBuilder {
	return func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return f(c, x[0]) }
}

func of2(f func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor) claimBuilder {
	return func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return f(c, x[0], x[1]) }
}

func of3(f func(c *ctx, a, b, d *ggml.Tensor) *ggml.Tensor) claimBuilder {
	return func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return f(c, x[0], x[1], x[2]) }
}

// gated builds a GLU of one operand or of two.
func gated(kind ggml.GLU) claimBuilder {
	return func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		if len(x) == 2 {
			return c.GLUSplit(kind, x[0], x[1])
		}
		return c.GLU(kind, x[0], k.int(1) != 0)
	}
}

// optional returns operand i, or nil if there are fewer.
func optional(x []*ggml.Tensor, i int) *ggml.Tensor {
	if i < len(x) {
		return x[i]
	}
	return nil
}

// claimBuilders lists the ops of the claims; a star marks ops whose result is a view of an operand.
var claimBuilders = map[string]claimBuilder{
	"ABS": of1((*ctx).Abs), "CEIL": of1((*ctx).Ceil), "COS": of1((*ctx).Cos), "ELU": of1((*ctx).Elu), "EXP": of1((*ctx).Exp),
	"EXPM1": of1((*ctx).Expm1), "FLOOR": of1((*ctx).Floor), "GELU": of1((*ctx).Gelu), "GELU_ERF": of1((*ctx).GeluErf),
	"GELU_QUICK": of1((*ctx).GeluQuick), "HARDSIGMOID": of1((*ctx).HardSigmoid), "HARDSWISH": of1((*ctx).HardSwish),
	"LOG": of1((*ctx).Log), "NEG": of1((*ctx).Neg), "RELU": of1((*ctx).Relu), "ROUND": of1((*ctx).Round), "SGN": of1((*ctx).Sgn),
	"SIGMOID": of1((*ctx).Sigmoid), "SILU": of1((*ctx).Silu), "SIN": of1((*ctx).Sin), "SOFTPLUS": of1((*ctx).Softplus),
	"SQR": of1((*ctx).Sqr), "SQRT": of1((*ctx).Sqrt), "STEP": of1((*ctx).Step), "TANH": of1((*ctx).Tanh), "TRUNC": of1((*ctx).Trunc),
	"XIELU": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.XIELU(x[0], ggml.XIELUParams{AlphaN: k.float(1), AlphaP: k.float(2), Beta: k.float(3), Eps: k.float(4)})
	},

	"ARGMAX": of1((*ctx).ArgMax), "CUMSUM": of1((*ctx).CumSum), "DIAG": of1((*ctx).Diag), "DUP": of1((*ctx).Dup),
	"MEAN": of1((*ctx).Mean), "SUM": of1((*ctx).Sum), "SUM_ROWS": of1((*ctx).SumRows),
	"CONT": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.Cont(x[0]) },
	"TOP_K": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.TopK(x[0], int(k.result.ne[0]))
	},
	"ARGSORT": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.ArgSort(x[0], ggml.SortOrder(k.int(0)))
	},
	"TRI":    func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.Tri(x[0], ggml.Triangle(k.int(0))) },
	"REPEAT": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.Repeat(x[0], k.result.ne[:]...) },

	"ARANGE": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.Arange(k.float(0), k.float(1), k.float(2))
	},
	"CLAMP": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.Clamp(x[0], k.float(0), k.float(1)) },
	"FILL":  func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.Fill(x[0], k.float(0)) },
	"LEAKY_RELU*": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.LeakyReluInPlace(x[0], k.float(0))
	},
	"SCALE": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.ScaleBias(x[0], k.float(0), k.float(1))
	},
	"SCALE*": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.ScaleBiasInPlace(x[0], k.float(0), k.float(1))
	},
	"TIMESTEP_EMBEDDING": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.TimestepEmbedding(x[0], k.int(0), k.int(1))
	},

	"ADD": of2((*ctx).Add), "DIV": of2((*ctx).Div), "MUL": of2((*ctx).Mul), "SUB": of2((*ctx).Sub), "COUNT_EQUAL": of2((*ctx).CountEqual),
	"ADD_ID": of3((*ctx).AddID),
	"CONCAT": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.Concat(x[0], x[1], k.int(0)) },
	"ACC": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.Acc(x[0], x[1], k.strides(), int64(k.int(3)))
	},
	"SET": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.Set(x[0], x[1], k.strides(), int64(k.int(3)))
	},
	"SET*": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.SetInPlace(x[0], x[1], k.strides(), int64(k.int(3)))
	},
	"REPEAT_BACK": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.RepeatBack(x[0], k.result.place(c))
	},
	"CPY*":      of2((*ctx).Copy),
	"GET_ROWS":  of2((*ctx).GetRows),
	"SET_ROWS*": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.SetRows(x[2], x[0], x[1]) },
	"GET_ROWS_BACK": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.GetRowsBack(x[0], x[1], k.result.place(c))
	},

	"SWIGLU": gated(ggml.SwiGLU), "GEGLU": gated(ggml.GeGLU), "GEGLU_ERF": gated(ggml.GeGLUErf), "GEGLU_QUICK": gated(ggml.GeGLUQuick),
	"REGLU": gated(ggml.ReGLU),
	"SWIGLU_OAI": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.SwiGLUOAI(x[0], x[1], k.float(2), k.float(3))
	},
	"SWIGLU_CLAMP": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.SwiGLUClamp(x[0], x[1], k.float(3)) },

	"MUL_MAT": of2((*ctx).MulMat), "MUL_MAT_ID": of3((*ctx).MulMatID), "OUT_PROD": of2((*ctx).OutProd), "SOLVE_TRI": of2((*ctx).SolveTri),

	"NORM":    func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.Norm(x[0], k.float(0)) },
	"L2_NORM": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.L2Norm(x[0], k.float(0)) },
	"GROUP_NORM": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.GroupNorm(x[0], k.int(0), k.float(1))
	},
	"RMS_NORM":      func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.RMSNorm(x[0], k.float(0)) },
	"RMS_NORM*":     func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.RMSNormInPlace(x[0], k.float(0)) },
	"RMS_NORM_BACK": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.RMSNormBack(x[0], x[1], k.float(0)) },
	"SOFT_MAX": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.SoftMaxExt(x[0], k.softMax(x))
	},
	"SOFT_MAX*": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.SoftMaxExtInPlace(x[0], k.softMax(x))
	},
	"SOFT_MAX_BACK": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		if maxBias := k.float(1); maxBias != 0 {
			return nil
		}
		return c.SoftMaxBack(x[0], x[1], k.float(0))
	},
	"DIAG_MASK_INF":           func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.DiagMaskInf(x[0], k.int(0)) },
	"SILU_BACK":               of2((*ctx).SiluBack),
	"CROSS_ENTROPY_LOSS":      of2((*ctx).CrossEntropyLoss),
	"CROSS_ENTROPY_LOSS_BACK": of3((*ctx).CrossEntropyLossBack),
	"OPT_STEP_ADAMW*": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.OptStepAdamW(ggml.AdamWOperands{Param: x[0].SetParam(), Grad: x[1], M: x[2], V: x[3], Settings: x[4]})
	},
	"OPT_STEP_SGD*": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.OptStepSGD(x[0].SetParam(), x[1], x[2])
	},

	"ROPE": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.RoPE(x[0], x[1], optional(x, 2), k.rope())
	},
	"ROPE*": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.RoPEInPlace(x[0], x[1], optional(x, 2), k.rope())
	},
	"ROPE_BACK": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.RoPEBack(x[0], x[1], optional(x, 2), k.rope())
	},
	"FLASH_ATTN_EXT": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.FlashAttention(x[0], x[1], x[2], ggml.AttentionOptions{
			Mask: optional(x, 3), Sinks: optional(x, 4), Scale: k.float(0), MaxBias: k.float(1), Softcap: k.float(2),
		})
	},
	"LIGHTNING_INDEXER": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.LightningIndexer(x[0], x[1], x[2], x[3])
	},

	"SSM_CONV": of2((*ctx).SSMConv),
	"SSM_SCAN": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		if scan, ok := states(k, 1, c.SSMScan, c.SSMScanStates); ok {
			return scan(ssmScan(x))
		}
		return nil
	},
	"GATED_DELTA_NET": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		if net, ok := states(k, 2, c.GatedDeltaNet, c.GatedDeltaNetStates); ok {
			return net(deltaNet(x))
		}
		return nil
	},
	"GATED_LINEAR_ATTN": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.GatedLinearAttention(linearAttention(x, k.float(0)))
	},
	"RWKV_WKV6": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.RWKV6(rwkv6(x))
	},
	"RWKV_WKV7": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.RWKV7(rwkv7(x))
	},
	"DSV4_HC_COMB": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.HyperConnectComb(x[0], x[1], x[2], ggml.Sinkhorn{Eps: k.float(0), Iterations: k.int(1)})
	},
	"DSV4_HC_POST": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.HyperConnectPost(x[0], x[1], x[2], optional(x, 3))
	},
	"DSV4_HC_PRE": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		if gate := k.int(1) != 0; gate {
			return c.HyperConnectPreGated(x[0], x[1], k.float(0))
		}
		return c.HyperConnectPre(x[0], x[1])
	},

	"CONV_2D": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.Conv2DDirect(x[0], x[1], k.conv2()) },
	"CONV_2D_DW": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.ConvDepthwise2DDirect(x[0], x[1], k.conv2())
	},
	"CONV_3D": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.Conv3DDirect(x[0], x[1], k.int(9), k.conv3())
	},
	"CONV_TRANSPOSE_1D": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.ConvTranspose1D(x[0], x[1], k.int(0))
	},
	"CONV_TRANSPOSE_2D": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.ConvTranspose2D(x[0], x[1], k.int(0))
	},
	"COL2IM_1D": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.Col2Im1D(x[0], k.int(0), k.int(1), k.int(2))
	},
	"IM2COL": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		dims := k.conv2()
		if k.int(6) == 0 {
			return c.Im2Col(x[0], x[1], k.result.typ, dims[0])
		}
		return c.Im2Col(x[0], x[1], k.result.typ, dims[:]...)
	},
	"IM2COL_3D": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.Im2Col3D(x[0], x[1], ggml.Im2Col3DOptions{Channels: k.int(9), Type: k.result.typ, Dims: k.conv3()})
	},
	"POOL_1D": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.Pool1D(x[0], ggml.Pool(k.int(0)), ggml.PoolDim{Size: k.int(1), Stride: k.int(2), Padding: k.int(3)})
	},
	"POOL_2D": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.Pool2D(x[0], ggml.Pool(k.int(0)), [2]ggml.PoolDim{
			{Size: k.int(1), Stride: k.int(3), Padding: k.int(5)}, {Size: k.int(2), Stride: k.int(4), Padding: k.int(6)},
		})
	},
	"PAD": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		before, after := [4]int{k.int(0), k.int(2), k.int(4), k.int(6)}, [4]int{k.int(1), k.int(3), k.int(5), k.int(7)}
		if circular := k.int(8) != 0; circular {
			return c.PadCircular(x[0], before, after)
		}
		return c.PadExt(x[0], before, after)
	},
	"PAD_REFLECT_1D": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor { return c.PadReflect1D(x[0], k.int(0), k.int(1)) },
	"ROLL": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.Roll(x[0], [4]int{k.int(0), k.int(1), k.int(2), k.int(3)})
	},
	"UPSCALE": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.Interpolate(x[0], ggml.ScaleMode(k.int(0)), k.result.ne[:]...)
	},
	"RESHAPE*": func(c *ctx, k *claim, x []*ggml.Tensor) *ggml.Tensor {
		return c.Reshape(x[0], slices.Clone(k.result.ne[:])...)
	},
}
