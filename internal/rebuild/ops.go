package rebuild

import "github.com/goggml/ggml"

type (
	tensor  = *ggml.Tensor
	context = *ggml.Context

	// A builder builds a node from its first three operands.
	builder func(n *node, a, b, c tensor) tensor
)

func unary(f func(context, tensor) tensor) builder {
	return func(n *node, a, _, _ tensor) tensor { return f(n.c, a) }
}

func unaryOr(f, inPlace func(context, tensor) tensor) builder {
	return func(n *node, a, _, _ tensor) tensor { return either(n, f, inPlace)(n.c, a) }
}

func binary(f func(c context, a, b tensor) tensor) builder {
	return func(n *node, a, b, _ tensor) tensor { return f(n.c, a, b) }
}

func binaryOr(f, inPlace func(c context, a, b tensor) tensor) builder {
	return func(n *node, a, b, _ tensor) tensor { return either(n, f, inPlace)(n.c, a, b) }
}

func ternary(f func(c context, a, b, d tensor) tensor) builder {
	return func(n *node, a, b, d tensor) tensor { return f(n.c, a, b, d) }
}

// numberOr is for ops with a number as a parameter, such as ε.
func numberOr(f, inPlace func(context, tensor, float32) tensor) builder {
	return func(n *node, a, _, _ tensor) tensor { return either(n, f, inPlace)(n.c, a, n.f32(0)) }
}

// numbersOr is for ops with two numbers.
func numbersOr(f, inPlace func(_ context, _ tensor, s, b float32) tensor) builder {
	return func(n *node, a, _, _ tensor) tensor { return either(n, f, inPlace)(n.c, a, n.f32(0), n.f32(1)) }
}

// partOr is for ops on a part of their first operand.
func partOr(f, inPlace func(_ context, a, b tensor, strides [3]int64, offset int64) tensor) builder {
	return func(n *node, a, b, _ tensor) tensor {
		return either(n, f, inPlace)(n.c, a, b, n.strides(), int64(n.int(3)))
	}
}

var builders = map[string]builder{
	// views
	"view": func(n *node, a, _, _ tensor) tensor {
		return n.c.View(a, n.shape(), n.Result.Stride[1:], n.size(0))
	},
	"reshape":   func(n *node, a, _, _ tensor) tensor { return n.c.Reshape(a, n.shape()...) },
	"permute":   func(n *node, a, _, _ tensor) tensor { return n.c.Permute(a, n.four(0, 1)) },
	"transpose": unary(context.Transpose),

	// arithmetic
	"dup": unaryOr(context.Dup, context.DupInPlace), "sqr": unaryOr(context.Sqr, context.SqrInPlace), "sqrt": unaryOr(context.Sqrt, context.SqrtInPlace),
	"log": unaryOr(context.Log, context.LogInPlace), "sin": unaryOr(context.Sin, context.SinInPlace), "cos": unaryOr(context.Cos, context.CosInPlace),
	"sub": binaryOr(context.Sub, context.SubInPlace), "mul": binaryOr(context.Mul, context.MulInPlace), "div": binaryOr(context.Div, context.DivInPlace),
	"add": add, "add_id": ternary(context.AddID),
	"acc": partOr(context.Acc, context.AccInPlace), "set": partOr(context.Set, context.SetInPlace),
	"scale":      numbersOr(context.ScaleBias, context.ScaleBiasInPlace),
	"clamp":      numbersOr(context.Clamp, context.ClampInPlace),
	"fill":       numberOr(context.Fill, context.FillInPlace),
	"leaky_relu": numberOr(context.LeakyRelu, context.LeakyReluInPlace),
	"arange":     func(n *node, _, _, _ tensor) tensor { return n.c.Arange(n.f32(0), n.f32(1), n.f32(2)) },
	"unary": func(n *node, a, _, _ tensor) tensor {
		if u := ggml.Unary(n.int(0)); u != ggml.UnaryXIELU {
			return either(n, n.c.Unary, n.c.UnaryInPlace)(u, a)
		}
		return n.c.XIELU(a, ggml.XIELUParams{AlphaN: n.f32(1), AlphaP: n.f32(2), Beta: n.f32(3), Eps: n.f32(4), Computed: true})
	},
	"glu": func(n *node, a, b, _ tensor) tensor {
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
	"silu_back": binary(context.SiluBack),

	// reductions
	"sum": unary(context.Sum), "sum_rows": unary(context.SumRows), "cumsum": unary(context.CumSum), "mean": unary(context.Mean),
	"argmax":      unary(context.ArgMax),
	"count_equal": binary(context.CountEqual),
	"argsort":     func(n *node, a, _, _ tensor) tensor { return n.c.ArgSort(a, ggml.SortOrder(n.int(0))) },
	"top_k":       func(n *node, a, _, _ tensor) tensor { return n.c.TopK(a, n.ne(0)) },

	// norms
	"norm":          numberOr(context.Norm, context.NormInPlace),
	"rms_norm":      numberOr(context.RMSNorm, context.RMSNormInPlace),
	"l2_norm":       numberOr(context.L2Norm, context.L2NormInPlace),
	"rms_norm_back": func(n *node, a, b, _ tensor) tensor { return n.c.RMSNormBack(a, b, n.f32(0)) },
	"group_norm": func(n *node, a, _, _ tensor) tensor {
		return either(n, n.c.GroupNorm, n.c.GroupNormInPlace)(a, n.int(0), n.f32(1))
	},

	// matrices
	"mul_mat":    func(n *node, a, b, _ tensor) tensor { return n.withPrecision(n.c.MulMat(a, b)) },
	"mul_mat_id": func(n *node, as, b, ids tensor) tensor { return n.withPrecision(n.c.MulMatID(as, b, ids)) },
	"out_prod":   binary(context.OutProd),
	"diag":       unary(context.Diag),
	"solve_tri":  binary(context.SolveTri),
	"tri":        func(n *node, a, _, _ tensor) tensor { return n.c.Tri(a, ggml.Triangle(n.int(0))) },

	// copies
	"cpy": func(n *node, a, b, _ tensor) tensor {
		if b == nil { // the tensor itself
			return n.c.Cast(a, n.Result.Type)
		}
		return n.c.Copy(a, b)
	},
	"cont":          func(n *node, a, _, _ tensor) tensor { return n.c.Cont(a, n.shape()...) },
	"repeat":        func(n *node, a, _, _ tensor) tensor { return n.c.Repeat(a, n.shape()...) },
	"repeat_back":   func(n *node, a, _, _ tensor) tensor { return n.c.RepeatBack(a, n.like(ggml.F32)) },
	"concat":        func(n *node, a, b, _ tensor) tensor { return n.c.Concat(a, b, n.int(0)) },
	"get_rows":      binary(context.GetRows),
	"get_rows_back": func(n *node, grad, ids, _ tensor) tensor { return n.c.GetRowsBack(grad, ids, n.like(ggml.F32)) },
	"set_rows":      func(n *node, b, ids, a tensor) tensor { return n.c.SetRows(a, b, ids) },

	// attention
	"soft_max": func(n *node, a, mask, sinks tensor) tensor {
		o := ggml.SoftMaxOptions{Mask: mask, Sinks: sinks, Scale: n.f32(0), MaxBias: n.f32(1)}
		return either(n, n.c.SoftMaxExt, n.c.SoftMaxExtInPlace)(a, o)
	},
	"soft_max_back": func(n *node, grad, y, _ tensor) tensor {
		return either(n, n.c.SoftMaxBack, n.c.SoftMaxBackInPlace)(grad, y, n.f32(0))
	},
	"rope": func(n *node, a, pos, factors tensor) tensor {
		return either(n, n.c.RoPE, n.c.RoPEInPlace)(a, pos, factors, n.rope())
	},
	"rope_back": func(n *node, a, pos, factors tensor) tensor { return n.c.RoPEBack(a, pos, factors, n.rope()) },
	"flash_attn_ext": func(n *node, q, k, v tensor) tensor {
		o := ggml.AttentionOptions{Mask: n.source(3), Sinks: n.source(4), Scale: n.f32(0), MaxBias: n.f32(1), Softcap: n.f32(2)}
		t := n.attention(q, k, v, o)
		if p := n.int(3); p != 0 {
			t.SetAccPrecision(ggml.Precision(p))
		}
		if keys := n.int(4); keys != 0 {
			t.SetMaxKeys(keys)
		}
		return t
	},
	"top_k_mask": func(n *node, mask, topK, score tensor) tensor {
		return n.c.TopKMask(mask, topK, ggml.TopKOptions{Score: score, Blocks: n.source(3), Extra: n.source(4)})
	},
	"lightning_indexer": func(n *node, q, k, weights tensor) tensor {
		return n.c.LightningIndexer(q, k, weights, n.source(3))
	},

	// convolutions and images
	"im2col": func(n *node, kernel, data, _ tensor) tensor {
		return n.c.Im2Col(kernel, data, n.Result.Type, n.planes()...)
	},
	"im2col_back": func(n *node, grad, kernel, _ tensor) tensor {
		return n.c.Im2ColBack(grad, kernel, n.Result.Shape, n.planes()...)
	},
	"im2col_3d": func(n *node, kernel, data, _ tensor) tensor {
		return n.c.Im2Col3D(kernel, data, ggml.Im2Col3DOptions{Channels: n.int(9), Type: n.Result.Type, Dims: n.volume()})
	},
	"col2im_1d": func(n *node, a, _, _ tensor) tensor { return n.c.Col2Im1D(a, n.int(0), n.int(1), n.int(2)) },
	"conv_2d":   func(n *node, kernel, data, _ tensor) tensor { return n.c.Conv2DDirect(kernel, data, n.image()) },
	"conv_2d_dw": func(n *node, kernel, data, _ tensor) tensor {
		return n.c.ConvDepthwise2DDirect(kernel, data, n.image())
	},
	"conv_3d": func(n *node, kernel, data, _ tensor) tensor {
		return n.c.Conv3DDirect(kernel, data, n.int(9), n.volume())
	},
	"conv_transpose_1d": func(n *node, kernel, data, _ tensor) tensor { return n.c.ConvTranspose1D(kernel, data, n.int(0)) },
	"conv_transpose_2d": func(n *node, kernel, data, _ tensor) tensor { return n.c.ConvTranspose2D(kernel, data, n.int(0)) },
	"pool_1d":           func(n *node, a, _, _ tensor) tensor { return n.c.Pool1D(a, ggml.Pool(n.int(0)), n.pool(1, 2, 3)) },
	"pool_2d":           func(n *node, a, _, _ tensor) tensor { return n.c.Pool2D(a, ggml.Pool(n.int(0)), n.windows()) },
	"pool_2d_back": func(n *node, grad, x, _ tensor) tensor {
		return n.c.Pool2DBack(grad, x, ggml.Pool(n.int(0)), n.windows())
	},
	"upscale": func(n *node, a, _, _ tensor) tensor {
		return n.c.Interpolate(a, ggml.ScaleMode(n.int(0)), n.shape()...)
	},
	"pad": func(n *node, a, _, _ tensor) tensor {
		pad := n.c.PadExt
		if n.int(8) != 0 {
			pad = n.c.PadCircular
		}
		return pad(a, n.four(0, 2), n.four(1, 2))
	},
	"pad_reflect_1d":     func(n *node, a, _, _ tensor) tensor { return n.c.PadReflect1D(a, n.int(0), n.int(1)) },
	"roll":               func(n *node, a, _, _ tensor) tensor { return n.c.Roll(a, n.four(0, 1)) },
	"timestep_embedding": func(n *node, a, _, _ tensor) tensor { return n.c.TimestepEmbedding(a, n.int(0), n.int(1)) },
	"win_part":           func(n *node, a, _, _ tensor) tensor { return n.c.WinPart(a, n.int(2)) },
	"win_unpart":         func(n *node, a, _, _ tensor) tensor { return n.c.WinUnpart(a, n.ne(1), n.ne(2)) },
	"get_rel_pos":        func(n *node, a, _, _ tensor) tensor { return n.c.GetRelPos(a, n.ne(1)) },
	"add_rel_pos": func(n *node, a, pw, ph tensor) tensor {
		return either(n, n.c.AddRelPos, n.c.AddRelPosInPlace)(a, pw, ph)
	},

	// recurrent layers
	"ssm_conv": binary(context.SSMConv),
	"ssm_scan": func(n *node, state, x, dt tensor) tensor {
		o := ggml.SSMScanOperands{State: state, X: x, DT: dt, A: n.source(3), B: n.source(4), C: n.source(5), IDs: n.source(6)}
		if n.int(0) > 1 {
			return n.c.SSMScanStates(o)
		}
		return n.c.SSMScan(o)
	},
	"rwkv_wkv6": func(n *node, k, v, r tensor) tensor {
		return n.c.RWKV6(ggml.RWKV6Operands{K: k, V: v, R: r, TimeFirst: n.source(3), TimeDecay: n.source(4), State: n.source(5)})
	},
	"rwkv_wkv7": func(n *node, r, w, k tensor) tensor {
		return n.c.RWKV7(ggml.RWKV7Operands{R: r, W: w, K: k, V: n.source(3), A: n.source(4), B: n.source(5), State: n.source(6)})
	},
	"gated_linear_attn": func(n *node, k, v, q tensor) tensor {
		return n.c.GatedLinearAttention(ggml.GatedLinearAttentionOperands{K: k, V: v, Q: q, G: n.source(3), State: n.source(4), Scale: n.f32(0)})
	},
	"gated_delta_net": func(n *node, q, k, v tensor) tensor {
		o := ggml.GatedDeltaNetOperands{Q: q, K: k, V: v, G: n.source(3), Beta: n.source(4), State: n.source(5)}
		if n.int(0) > 1 {
			return n.c.GatedDeltaNetStates(o)
		}
		return n.c.GatedDeltaNet(o)
	},
	"dsv4_hc_comb": func(n *node, mixes, scale, base tensor) tensor {
		return n.c.HyperConnectComb(mixes, scale, base, ggml.Sinkhorn{Eps: n.f32(0), Iterations: n.int(1)})
	},
	"dsv4_hc_pre": func(n *node, x, weights, _ tensor) tensor {
		if n.int(1) != 0 {
			return n.c.HyperConnectPreGated(x, weights, n.f32(0))
		}
		return n.c.HyperConnectPre(x, weights)
	},
	"dsv4_hc_post": func(n *node, x, residual, post tensor) tensor {
		return n.c.HyperConnectPost(x, residual, post, n.source(3))
	},

	// training
	"cross_entropy_loss":      binary(context.CrossEntropyLoss),
	"cross_entropy_loss_back": ternary(context.CrossEntropyLossBack),
	"opt_step_adamw": func(n *node, a, grad, m tensor) tensor {
		return n.c.OptStepAdamW(ggml.AdamWOperands{Param: a, Grad: grad, M: m, V: n.source(3), Settings: n.source(4)})
	},
	"opt_step_sgd": ternary(context.OptStepSGD),
}

func add(n *node, a, b, _ tensor) tensor {
	switch t := n.Result.Type; {
	case n.InPlace:
		return n.c.AddInPlace(a, b)
	case a != nil && (a.Type() != t || a.Type().IsQuantized()):
		return n.c.AddCast(a, b, t)
	default:
		return n.c.Add(a, b)
	}
}
