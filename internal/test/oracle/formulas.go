package oracle

import (
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A formula computes a node from the values of its operands, which stay as they are.
type formula func(n *node, x []refmath.Tensor) refmath.Tensor

// isView lists the ops that are only another view of their operand.
var isView = map[string]bool{"view": true, "reshape": true, "permute": true, "transpose": true}

var formulas = map[string]formula{
	"add": binary(refmath.Add), "sub": binary(refmath.Sub), "mul": binary(refmath.Mul), "div": binary(refmath.Div),
	"sqr": unary(refmath.Sqr), "sqrt": unary(refmath.Sqrt), "log": unary(refmath.Log), "exp": unary(refmath.Exp), "abs": unary(refmath.Abs), "step": unary(refmath.Step),
	"neg": unary(refmath.Neg), "sin": unary(refmath.Sin), "cos": unary(refmath.Cos), "tanh": unary(refmath.Tanh), "sigmoid": unary(refmath.Sigmoid),
	"silu": unary(refmath.Silu), "gelu": unary(refmath.Gelu), "relu": unary(refmath.Relu), "softplus": unary(refmath.Softplus),
	"sum": unary(refmath.Sum), "sum_rows": unary(refmath.SumRows), "mean": unary(refmath.Mean), "argmax": unary(refmath.ArgMax), "cumsum": unary(refmath.CumSum),
	"mul_mat": binary(refmath.MulMat), "out_prod": binary(refmath.OutProd), "get_rows": binary(refmath.GetRows),
	"mul_mat_id": func(_ *node, x []refmath.Tensor) refmath.Tensor { return refmath.MulMatID(x[0], x[1], x[2]) },
	"argsort":    func(n *node, x []refmath.Tensor) refmath.Tensor { return refmath.ArgSort(x[0], n.params[0] != 0) },
	"top_k":      func(n *node, x []refmath.Tensor) refmath.Tensor { return refmath.TopK(x[0], n.ne[0]) },
	"add_id":     func(_ *node, x []refmath.Tensor) refmath.Tensor { return refmath.AddID(x[0], x[1], x[2]) },
	"set_rows":   func(_ *node, x []refmath.Tensor) refmath.Tensor { return refmath.SetRows(x[2], x[0], x[1]) },
	"swiglu":     glu(refmath.SwiGLU), "geglu": glu(refmath.GeGLU), "reglu": glu(refmath.ReGLU),
	"xielu": func(n *node, x []refmath.Tensor) refmath.Tensor {
		return refmath.FoldedXielu(x[0], n.float(1), n.float(2), n.float(3), n.float(4))
	},
	"cont": copied, "cpy": copied, "dup": copied,

	"scale": func(n *node, x []refmath.Tensor) refmath.Tensor {
		return refmath.ScaleBias(x[0], n.float(0), n.float(1))
	},
	"clamp": func(n *node, x []refmath.Tensor) refmath.Tensor { return refmath.Clamp(x[0], n.float(0), n.float(1)) },
	"fill":  func(n *node, x []refmath.Tensor) refmath.Tensor { return refmath.Fill(x[0], n.float(0)) },
	"arange": func(n *node, _ []refmath.Tensor) refmath.Tensor {
		return refmath.Arange(n.float(0), n.float(1), n.float(2))
	},
	"repeat":   func(n *node, x []refmath.Tensor) refmath.Tensor { return refmath.Repeat(x[0], n.ne[:]...) },
	"concat":   func(n *node, x []refmath.Tensor) refmath.Tensor { return refmath.Concat(x[0], x[1], int(n.params[0])) },
	"rms_norm": func(n *node, x []refmath.Tensor) refmath.Tensor { return refmath.RMSNorm(x[0], n.float(0)) },
	"norm":     func(n *node, x []refmath.Tensor) refmath.Tensor { return refmath.Norm(x[0], n.float(0)) },
	"l2_norm":  func(n *node, x []refmath.Tensor) refmath.Tensor { return refmath.L2Norm(x[0], n.float(0)) },
	"soft_max": softMax, "flash_attn_ext": flashAttention, "rope": rope, "pad": pad,
	"opt_step_adamw": adamW,
	"silu_back":      binary(refmath.SiluBack),
	"rms_norm_back":  func(n *node, x []refmath.Tensor) refmath.Tensor { return refmath.RMSNormBack(x[0], x[1], n.float(0)) },
	"soft_max_back": func(n *node, x []refmath.Tensor) refmath.Tensor {
		return refmath.SoftMaxExtBack(x[0], x[1], n.float(0))
	},
	"rope_back": rope,
	"tri": func(n *node, x []refmath.Tensor) refmath.Tensor {
		return refmath.Triangle(x[0], refmath.Tri(n.params[0]))
	},
	"diag":      unary(refmath.Diag),
	"solve_tri": binary(refmath.SolveTri),
	"gated_delta_net": func(_ *node, x []refmath.Tensor) refmath.Tensor {
		return refmath.GatedDeltaNet(x[0], x[1], x[2], x[3], x[4], x[5])
	},
	"rwkv_wkv6": func(_ *node, x []refmath.Tensor) refmath.Tensor {
		return refmath.RWKV6(x[0], x[1], x[2], x[3], x[4], x[5])
	},
	"rwkv_wkv7": func(_ *node, x []refmath.Tensor) refmath.Tensor {
		return refmath.RWKV7(x[0], x[1], x[2], x[3], x[4], x[5], x[6])
	},
	"gated_linear_attn": func(n *node, x []refmath.Tensor) refmath.Tensor {
		return refmath.GatedLinearAttention(x[0], x[1], x[2], x[3], x[4], n.float(0))
	},
	"ssm_scan": func(_ *node, x []refmath.Tensor) refmath.Tensor {
		return refmath.SSMScan(x[0], x[1], x[2], x[3], x[4], x[5], x[6])
	},
	"set": into(refmath.Set), "acc": into(refmath.Acc),
}

// float returns parameter i as a float.
func (n *node) float(i int) float64 { return float64(n.params.Float32(i)) }

func unary(f func(a refmath.Tensor) refmath.Tensor) formula {
	return func(_ *node, x []refmath.Tensor) refmath.Tensor { return f(x[0]) }
}

func binary(f func(a, b refmath.Tensor) refmath.Tensor) formula {
	return func(_ *node, x []refmath.Tensor) refmath.Tensor { return f(x[0], x[1]) }
}

// copied is the formula of copies and casts: narrower types round nothing here.
func copied(n *node, x []refmath.Tensor) refmath.Tensor { return refmath.Reshape(x[0], n.ne[:]...) }

// glu computes a GLU of two operands, or of the halves of one.
func glu(unit refmath.GLU) formula {
	return func(n *node, x []refmath.Tensor) refmath.Tensor {
		if len(x) == 2 {
			return refmath.GateSplit(unit, x[0], x[1])
		}
		return refmath.Gate(unit, x[0], n.params[1] != 0)
	}
}

func softMax(n *node, x []refmath.Tensor) refmath.Tensor {
	var mask refmath.Tensor
	if len(x) > 1 {
		mask = x[1]
	}
	var sinks refmath.Tensor
	if len(x) > 2 {
		sinks = x[2]
	}
	return refmath.SoftMaxExt(x[0], mask, sinks, n.float(0), n.float(1))
}

func flashAttention(n *node, x []refmath.Tensor) refmath.Tensor {
	x = append(x, refmath.Tensor{}, refmath.Tensor{}) // no mask or sinks
	return refmath.FlashAttnExt(x[0], x[1], x[2], x[3], x[4], n.float(0), n.float(1), n.float(2))
}

// adamW returns the parameter; graphs do not read the moments after the step.
func adamW(_ *node, x []refmath.Tensor) refmath.Tensor {
	s := x[4].Data
	w, _, _ := refmath.OptStepAdamW(x[0], x[1], x[2], x[3], refmath.AdamWParams{Alpha: s[0], Beta1: s[1], Beta2: s[2], Eps: s[3], WD: s[4], Beta1H: s[5], Beta2H: s[6]})
	return w
}

// pad takes two parameters per dimension: zeros before and after.
func pad(n *node, x []refmath.Tensor) refmath.Tensor {
	var before, behind [4]int64
	for k := range before {
		before[k], behind[k] = int64(n.params[2*k]), int64(n.params[2*k+1])
	}
	return refmath.PadExt(x[0], before, behind)
}

// into writes or adds the second operand to a part of the first.
func into(f func(a, b refmath.Tensor, stride [3]int64, offset int64) refmath.Tensor) formula {
	const size = 4 // bytes of F32 and I32
	return func(n *node, x []refmath.Tensor) refmath.Tensor {
		stride := [3]int64{int64(n.params[0]) / size, int64(n.params[1]) / size, int64(n.params[2]) / size}
		return f(x[0], x[1], stride, int64(n.params[3])/size)
	}
}

func rope(n *node, x []refmath.Tensor) refmath.Tensor {
	r := refmath.RoPE{
		Dims: int(n.params[1]), NeoX: ggml.RoPEMode(n.params[2]) == ggml.RoPENeoX, CtxOrig: int(n.params[4]),
		FreqBase: n.float(5), FreqScale: n.float(6), ExtFactor: n.float(7), AttnFactor: n.float(8), BetaFast: n.float(9), BetaSlow: n.float(10),
	}
	if mode := ggml.RoPEMode(n.params[2]); mode != ggml.RoPENorm && mode != ggml.RoPENeoX {
		r.Sections = [4]int{int(n.params[11]), int(n.params[12]), int(n.params[13]), int(n.params[14])}
		r.Interleaved, r.Vision = mode == ggml.RoPEInterleaved, mode == ggml.RoPEVision
		r.NeoX = true
	}
	if len(x) > 2 {
		r.Factors = x[2].Data
	}
	if n.op == "rope_back" {
		return refmath.RopeExtBack(x[0], x[1], r)
	}
	return refmath.RopeExt(x[0], x[1], r)
}

// roundedGELU has the formulas of ops for which ggml's CPU backend reads GELU from a table.
var roundedGELU = map[string]formula{
	"gelu":  func(_ *node, x []refmath.Tensor) refmath.Tensor { return refmath.Map(x[0], gelu16) },
	"geglu": func(_ *node, x []refmath.Tensor) refmath.Tensor { return refmath.Mul(refmath.Map(x[0], gelu16), x[1]) },
}

// gelu16 reads GELU from a table of F16, for inputs in its range.
func gelu16(x float64) float64 {
	if x <= -10 || x >= 10 {
		return math.Max(x, 0)
	}
	exact := refmath.Gelu(refmath.RoundF16(refmath.From([]float64{x})))
	return refmath.RoundF16(exact).Data[0]
}
