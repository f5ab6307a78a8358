package fuzz

import (
	"reflect"
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// A generator draws arguments that an op is likely to take.
type generator func(p *program) []any

type list = []any

// generators has an entry for each method of a context that makes a tensor.
var generators = map[string]generator{}

// opNames are its keys in order, so that a seed stands for one program.
var opNames []string

func family(g generator, names string) {
	for _, name := range strings.Fields(names) {
		generators[name] = g
	}
}

func init() {
	unaryOps()
	binaryOps()
	reductions()
	layoutOps()
	matrixOps()
	attentionOps()
	convolutions()
	imageOps()
	recurrentOps()
	trainingOps()
	customOps()
	for name := range generators {
		opNames = append(opNames, name)
	}
	slices.Sort(opNames)
}

// isOp tells whether a method of a context makes a tensor, or several.
func isOp(m reflect.Method) bool {
	t := m.Type
	return t.NumOut() > 0 && t.Out(0) == tensorType && m.Name != "Lookup"
}

func one(types []ggml.Type) generator {
	return func(p *program) []any { return list{p.any(types)} }
}

func oneDense(types []ggml.Type, more ...func(p *program) any) generator {
	return func(p *program) []any {
		args := list{p.anyDense(types)}
		for _, f := range more {
			args = append(args, f(p))
		}
		return args
	}
}

func scalar(p *program) any  { return float32(p.NormFloat64()) }
func epsilon(p *program) any { return []float32{1e-5, 1e-6, 0, 0.1}[p.IntN(4)] }

// maybe is a tensor or nil.
func (p *program) maybe(f func() *ggml.Tensor) *ggml.Tensor {
	if p.IntN(2) == 0 {
		return nil
	}
	return f()
}

func (p *program) unary() ggml.Unary {
	all := ggml.Unaries()
	return all[p.IntN(len(all))]
}

func unaryOps() {
	family(one(floats), `Abs Sgn Neg Step Tanh Elu Relu Sigmoid Gelu GeluQuick GeluErf Silu HardSwish HardSigmoid Exp
		Expm1 Softplus Floor Ceil Round Trunc Sqr Sqrt Log Sin Cos
		AbsInPlace SgnInPlace NegInPlace StepInPlace TanhInPlace EluInPlace ReluInPlace SigmoidInPlace GeluInPlace
		GeluQuickInPlace GeluErfInPlace SiluInPlace HardSwishInPlace HardSigmoidInPlace ExpInPlace Expm1InPlace
		SoftplusInPlace FloorInPlace CeilInPlace RoundInPlace TruncInPlace SqrInPlace SqrtInPlace LogInPlace
		SinInPlace CosInPlace`)
	family(func(p *program) []any { return list{p.unary(), p.any(floats)} }, "Unary UnaryInPlace")
	family(func(p *program) []any { return list{float32(p.NormFloat64())} }, "NewF32")
	family(func(p *program) []any { return list{p.Int32N(10)} }, "NewI32")
	family(one(allTypes), "Alias NewTensorLike")
	family(oneDense(plain), "DupInPlace")
	family(oneDense(f32), "RoundBF16")
	family(oneDense(f32, scalar), "Scale ScaleInPlace Fill FillInPlace")
	family(oneDense(f32, scalar, scalar), "ScaleBias ScaleBiasInPlace")
	family(oneDense(halves, scalar), "LeakyRelu LeakyReluInPlace")
	family(func(p *program) []any {
		low := float32(p.NormFloat64())
		return list{p.any(halves), low, low + p.Float32()}
	}, "Clamp ClampInPlace")
	family(func(p *program) []any {
		return list{p.any(floats), scalar(p), scalar(p), scalar(p), scalar(p)}
	}, "XIELU")
	family(func(p *program) []any {
		start := float32(p.IntN(10))
		return list{start, start + float32(p.size(100)), p.Float32() + 0.25}
	}, "Arange")
	family(func(p *program) []any {
		ne := p.shape()
		return list{p.oneOf(floats), ne[0], ne[1]}
	}, "NewTensor")
}

func binaryOps() {
	family(func(p *program) []any {
		a := p.any(floats)
		types := f32
		if a.Type() != ggml.F32 && p.IntN(2) == 0 {
			types = []ggml.Type{a.Type()}
		}
		return list{a, p.part(a, types)}
	}, "Add Sub Mul Div AddInPlace SubInPlace MulInPlace DivInPlace")
	family(func(p *program) []any {
		a := p.any(halves)
		return list{ggml.GLU(p.IntN(5)), a, p.like(a, []ggml.Type{a.Type()})}
	}, "GLUSplit")
	family(func(p *program) []any {
		ne := p.shape()
		return list{ggml.GLU(p.IntN(5)), p.shaped(halves, [4]int64{2 * ne[0], ne[1], ne[2], ne[3]}), p.IntN(2) == 0}
	}, "GLU")
	family(func(p *program) []any {
		a := p.any(f32)
		return list{a, p.like(a, f32), scalar(p), scalar(p)}
	}, "SwiGLUOAI")
	family(func(p *program) []any {
		a := p.any(f32)
		return list{a, p.like(a, f32), scalar(p)}
	}, "SwiGLUClamp")
	family(func(p *program) []any {
		a := p.anyDense(halves)
		ne := dims(a)
		return list{a, p.dense([]ggml.Type{a.Type()}, ne[:]...)}
	}, "SiluBack")
	family(func(p *program) []any {
		up := p.anyDense(f32)
		ne := dims(up)
		return list{up, p.dense(f32, ne[:]...), p.dense(f32, ne[:]...)}
	}, "SwiGLUBackInPlace")
	family(func(p *program) []any {
		a := p.anyDense(weights[1:])
		ne := dims(a)
		return list{a, p.dense(f32, ne[:]...), []ggml.Type{ggml.F32, a.Type()}[p.IntN(2)]}
	}, "AddCast")
	family(func(p *program) []any {
		n, used, tokens, experts := p.size(p.width), p.size(4), p.size(4), p.size(6)
		return list{p.shaped(f32, [4]int64{n, used, tokens, 1}), p.shaped(f32, [4]int64{n, experts, 1, 1}), p.rows(experts, used, tokens)}
	}, "AddID")
}

func reductions() {
	family(one(floats), "Sum")
	family(one(f32), "SumRows CumSum Mean")
	family(func(p *program) []any { return list{p.any(f32), epsilon(p)} }, "Norm NormInPlace RMSNorm RMSNormInPlace L2Norm L2NormInPlace")
	family(func(p *program) []any {
		a := p.any(f32)
		return list{a, p.like(a, f32), epsilon(p)}
	}, "RMSNormBack")
	family(func(p *program) []any {
		a := p.anyDense(f32)
		return list{a, int(p.size(a.Dim(2))), epsilon(p)}
	}, "GroupNorm GroupNormInPlace")
	family(func(p *program) []any { return list{p.shaped(f32, [4]int64{p.size(p.width), p.size(5), 1, 1})} }, "ArgMax")
	family(func(p *program) []any { return list{p.any(f32), ggml.SortOrder(p.IntN(2))} }, "ArgSort")
	family(func(p *program) []any {
		a := p.any(f32)
		return list{a, int(p.size(a.Dim(0)))}
	}, "TopK ArgSortTopK")
	family(func(p *program) []any {
		a := p.anyDense(i32)
		ne := dims(a)
		return list{a, p.dense(i32, ne[:]...)}
	}, "CountEqual")
}

func layoutOps() {
	family(one(plain), "Dup Transpose")
	family(func(p *program) []any {
		perm := p.Perm(4)
		return list{p.any(allTypes), [4]int(perm)}
	}, "Permute")
	family(func(p *program) []any {
		if p.IntN(2) == 0 {
			return list{p.any(plain)}
		}
		return reshaped(p, p.any(plain))
	}, "Cont")
	family(func(p *program) []any { return reshaped(p, p.anyDense(allTypes)) }, "Reshape")
	family(view, "View")
	family(func(p *program) []any {
		a := p.any(weights)
		return list{a, p.like(a, weights)}
	}, "Copy")
	family(func(p *program) []any { return list{p.any(rowTypes), p.oneOf(rowTypes)} }, "Cast")
	family(func(p *program) []any {
		a := p.any([]ggml.Type{ggml.F32, ggml.F16, ggml.I32})
		args := list{a}
		for i := range 4 {
			args = append(args, a.Dim(i)*p.size(3))
		}
		return args
	}, "Repeat")
	family(func(p *program) []any {
		a := p.any(f32)
		return list{a, p.part(a, f32)}
	}, "RepeatBack")
	family(func(p *program) []any {
		a := p.any(plain)
		ne, dim := dims(a), p.IntN(4)
		ne[dim] = p.size(5)
		return list{a, p.shaped([]ggml.Type{a.Type()}, ne), dim}
	}, "Concat")
	family(func(p *program) []any {
		a := p.anyDense(f32)
		ne := dims(a)
		var small [4]int64
		for i, n := range ne {
			small[i] = p.size(n)
		}
		return list{a, p.shaped(f32, small), [3]int64{a.Stride(1), a.Stride(2), a.Stride(3)}, 4 * (p.size(ne[0]-small[0]+1) - 1)}
	}, "Acc AccInPlace Set SetInPlace")
	family(func(p *program) []any {
		a := p.any(rowTypes)
		return list{a, p.rows(a.Dim(1), p.size(5), a.Dim(2), a.Dim(3))}
	}, "GetRows")
	family(func(p *program) []any {
		n, k, rows := p.size(p.width), p.size(5), p.size(8)
		return list{p.shaped(f32, [4]int64{n, k, 1, 1}), p.ids(rows, ggml.I32, k), p.shaped(f32, [4]int64{n, rows, 1, 1})}
	}, "GetRowsBack")
	family(func(p *program) []any {
		a := p.any(weights)
		k := p.size(a.Dim(1))
		t := []ggml.Type{ggml.I32, ggml.I64}[p.IntN(2)]
		return list{a, p.shaped(f32, [4]int64{a.Dim(0), k, a.Dim(2), a.Dim(3)}), p.ids(a.Dim(1), t, k, p.divisor(a.Dim(2)), p.divisor(a.Dim(3)))}
	}, "SetRows")
}

func reshaped(p *program, a *ggml.Tensor) []any {
	// Factors move from one dimension to another.
	ne := dims(a)
	for range 3 {
		from, to := p.IntN(4), p.IntN(4)
		d := p.divisor(ne[from])
		if from == 0 && ne[0]/d%a.Type().BlockSize() != 0 {
			continue
		}
		ne[from] /= d
		ne[to] *= d
	}
	if p.IntN(4) == 0 {
		return list{a, int64(-1)}
	}
	return list{a, ne[0], ne[1], ne[2], ne[3]}
}

func view(p *program) []any {
	a := p.any(allTypes)
	block := a.Type().BlockSize()
	var ne [4]int64
	offset := int64(0)
	for i := range ne {
		unit := int64(1)
		if i == 0 {
			unit = block
		}
		n := a.Dim(i) / unit
		keep := p.size(n)
		offset += a.Stride(i) * (p.size(n-keep+1) - 1)
		ne[i] = keep * unit
	}
	strides := []int64{a.Stride(1), a.Stride(2), a.Stride(3)}
	if p.IntN(8) == 0 {
		strides[p.IntN(3)] = 0 // a row that counts several times
	}
	return list{a, ne[:], strides, offset}
}

func matrixOps() {
	family(func(p *program) []any {
		a := p.any(weights)
		types := f32
		if (a.Type() == ggml.F16 || a.Type() == ggml.BF16) && p.IntN(2) == 0 {
			types = []ggml.Type{a.Type()}
		}
		return list{a, p.shaped(types, [4]int64{a.Dim(0), p.size(6), a.Dim(2) * p.size(2), a.Dim(3) * p.size(2)})}
	}, "MulMat")
	family(func(p *program) []any {
		as := p.any(weights)
		used, n := p.size(3), p.size(4)
		return list{as, p.shaped(f32, [4]int64{as.Dim(0), p.divisor(used), n, 1}), p.rows(as.Dim(2), used, n)}
	}, "MulMatID")
	family(func(p *program) []any {
		a := p.any(outTypes)
		r, s := p.size(2), p.size(2)
		if a.Type() != ggml.F32 {
			r, s = 1, 1
		}
		return list{a, p.shaped(f32, [4]int64{p.size(6), a.Dim(1), a.Dim(2) * r, a.Dim(3) * s})}
	}, "OutProd")
	family(func(p *program) []any {
		ne := p.shape()
		ne[1] = 1
		return list{p.shaped(f32, ne)}
	}, "Diag")
	factors := f32
	if ggml.TiledBF16() {
		factors = []ggml.Type{ggml.F32, ggml.BF16}
	}
	family(func(p *program) []any {
		w := p.anyDense(weights)
		return list{w, p.dense(factors, w.Dim(0), p.size(9), w.Dim(2), w.Dim(3))}
	}, "TiledMulMat")
	family(func(p *program) []any {
		w := p.anyDense(weights)
		args := list{w, p.dense(f32, w.Dim(0), p.size(9), w.Dim(2), w.Dim(3))}
		for range p.IntN(3) {
			args = append(args, p.dense([]ggml.Type{w.Type(), ggml.F16}, w.Dim(0), p.size(9), w.Dim(2), w.Dim(3)))
		}
		return args
	}, "StreamMulMat")
	family(func(p *program) []any {
		w := p.anyDense(weights)
		return list{w, p.dense(factors, w.Dim(1), p.size(9), w.Dim(2), w.Dim(3))}
	}, "TiledMulMatX")
	family(func(p *program) []any {
		x := p.anyDense(factors)
		return list{x, p.dense([]ggml.Type{x.Type()}, p.size(9), x.Dim(1), x.Dim(2), x.Dim(3))}
	}, "TiledMulMatW")
	family(func(p *program) []any {
		x, m := p.anyDense(factors), p.size(9)
		dw := p.dense(f32, x.Dim(0), m, x.Dim(2), x.Dim(3))
		return list{dw, x, p.dense([]ggml.Type{x.Type()}, m, x.Dim(1), x.Dim(2), x.Dim(3))}
	}, "AddTiledMulMatW")
	family(func(p *program) []any {
		n, rank, m := p.size(40), p.size(9), p.size(9)
		args := list{nil, p.dense(floats, n, rank), p.dense(f32, rank, m)}
		for range p.IntN(3) {
			k, rank := p.size(40), p.size(9)
			args = append(args, p.dense(floats, k, rank), p.dense(f32, rank, m))
			n += k
		}
		args[0] = p.dense(f32, n, m)
		return args
	}, "AddLowRank")
	family(func(p *program) []any {
		args, m, types := list{nil, nil}, p.size(9), []ggml.Type{p.oneOf(factors)}
		n := int64(0)
		for range 1 + p.IntN(3) {
			k, rank := p.size(40), p.size(9)
			args = append(args, p.dense(floats, k, rank), p.dense(types, rank, m))
			n += k
		}
		w := p.dense(weights, p.size(p.width), n)
		args[0], args[1] = w, p.dense(types, w.Dim(0), m)
		return args
	}, "TiledLowRank")
}

func attentionOps() {
	family(oneDense(f32), "SoftMax SoftMaxInPlace")
	mask := func(p *program, a *ggml.Tensor) *ggml.Tensor {
		return p.maybe(func() *ggml.Tensor {
			return p.dense(halves, a.Dim(0), a.Dim(1)+p.size(3)-1, p.divisor(a.Dim(2)), p.divisor(a.Dim(3)))
		})
	}
	bias := func(p *program, mask *ggml.Tensor) float32 {
		if mask == nil {
			return 0
		}
		return []float32{0, 0, 8}[p.IntN(3)]
	}
	family(func(p *program) []any {
		a := p.anyDense(f32)
		m := mask(p, a)
		return list{a, m, scalar(p), bias(p, m)}
	}, "SoftMaxExt SoftMaxExtInPlace")
	family(func(p *program) []any {
		return list{p.anyDense(f32), scalar(p), int(p.size(80)) - 1}
	}, "CausalSoftMaxInPlace")
	causal := func(p *program) list {
		size, groups, n, batch := p.size(p.width), p.size(3), p.size(80), p.size(2)
		keys := [4]int64{size, groups, n, batch}
		q := p.shaped(f32, [4]int64{size, groups * p.size(3), n, batch})
		return list{q, p.shaped(f32, keys), p.shaped(f32, keys), scalar(p)}
	}
	family(func(p *program) []any { return causal(p) }, "CausalAttention")
	family(func(p *program) []any {
		args := causal(p)
		return append(list{p.like(args[0].(*ggml.Tensor), f32)}, args...)
	}, "CausalAttentionBack")
	family(func(p *program) []any {
		a := p.anyDense(f32)
		m := mask(p, a)
		return list{a, m, p.dense(f32, a.Dim(2)), scalar(p), bias(p, m)}
	}, "SoftMaxSinks")
	family(func(p *program) []any {
		a := p.anyDense(f32)
		ne := dims(a)
		return list{a, p.dense(f32, ne[:]...), scalar(p)}
	}, "SoftMaxBack SoftMaxBackInPlace")
	family(func(p *program) []any { return list{p.anyDense(f32), p.IntN(6)} }, "DiagMaskInf DiagMaskInfInPlace DiagMaskZero DiagMaskZeroInPlace")
	family(func(p *program) []any {
		n := 2 * p.size(p.width/2)
		a := p.shaped(halves, [4]int64{n, p.size(4), p.size(5), p.size(2)})
		modes := []ggml.RoPEMode{ggml.RoPENorm, ggml.RoPENeoX, ggml.RoPEMulti, ggml.RoPEInterleaved, ggml.RoPEVision}
		r := ggml.RoPE{Dims: 2 * int(p.size(n/2)), Mode: modes[p.IntN(len(modes))], FreqBase: 1e4, FreqScale: 1, TrainedCtx: p.IntN(100), AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
		positions := a.Dim(2)
		pairs := int64(r.Dims / 2)
		switch r.Mode {
		case ggml.RoPEVision:
			r.Dims = int(n / 2)
			pairs = int64(r.Dims)
			fallthrough
		case ggml.RoPEMulti, ggml.RoPEInterleaved:
			positions *= 4
			for i := range r.Sections {
				r.Sections[i] = int(p.size(n/4 + 1))
			}
		default:
			if p.IntN(4) == 0 {
				r.Offset = 2 * int(p.size(n/2-pairs+1)-1)
			}
		}
		if p.IntN(3) == 0 {
			r.ExtFactor, r.FreqScale = p.Float32(), p.Float32()+0.1
		}
		factors := p.maybe(func() *ggml.Tensor { return p.dense(f32, pairs) })
		return list{a, p.dense(i32, positions), factors, r}
	}, "RoPE RoPEBack RoPEInPlace")
	flash := func(p *program) []any {
		heads, kv, batch := p.size(2), p.size(9), p.size(2)
		k := p.shaped(weights, [4]int64{p.size(p.width), kv, heads, batch})
		q := p.shaped(f32, [4]int64{k.Dim(0), p.size(5), heads * p.size(2), batch * p.size(2)})
		v := p.shaped([]ggml.Type{k.Type()}, [4]int64{p.size(p.width), kv, heads, batch})
		m := p.maybe(func() *ggml.Tensor {
			return p.dense(f16, kv, q.Dim(1)+p.size(3)-1, p.divisor(q.Dim(2)), p.divisor(q.Dim(3)))
		})
		return list{q, k, v, m}
	}
	family(func(p *program) []any {
		x := flash(p)
		return append(x, scalar(p), bias(p, x[3].(*ggml.Tensor)), []float32{0, 0, 30}[p.IntN(3)])
	}, "FlashAttention")
	family(func(p *program) []any {
		x := flash(p)
		sinks := p.dense(f32, x[0].(*ggml.Tensor).Dim(2))
		return append(x, sinks, scalar(p), bias(p, x[3].(*ggml.Tensor)), []float32{0, 0, 30}[p.IntN(3)])
	}, "FlashAttentionSinks")
	family(func(p *program) []any {
		d, heads, n, streams, kv := p.size(p.width), p.size(4), p.size(5), p.size(3), p.size(7)
		return list{p.dense(f32, d, heads, n, streams), p.dense(halves, d, 1, kv, streams), p.dense(f32, heads, n, 1, streams), p.dense(f16, kv, n, 1, p.divisor(streams))}
	}, "LightningIndexer")
	family(func(p *program) []any {
		return list{p.dense(f32, 24, p.size(6)), p.dense(f32, 3), p.dense(f32, 24), epsilon(p), int(p.size(5))}
	}, "StreamsComb")
	family(func(p *program) []any {
		n, tokens := p.size(p.width), p.size(6)
		return list{p.dense(f32, n, 4, tokens), p.dense(f32, 4, tokens)}
	}, "StreamsPre")
	family(func(p *program) []any {
		n, tokens := p.size(p.width), p.size(6)
		return list{p.dense(f32, n, 4, tokens), p.dense(f32, n, 4, tokens), scalar(p)}
	}, "StreamsPreGated")
	family(func(p *program) []any {
		n, tokens := p.size(p.width), p.size(6)
		return list{p.dense(f32, n, tokens), p.dense(f32, n, 4, tokens), p.dense(f32, 4, tokens), p.maybe(func() *ggml.Tensor { return p.dense(f32, 4, 4, tokens) })}
	}, "StreamsPost")
}

func (p *program) conv() ggml.ConvDim {
	return ggml.ConvDim{Stride: p.IntN(4), Padding: p.IntN(4), Dilation: p.IntN(3)}
}

func convolutions() {
	// An image is [w, h, channels, batch], its kernel [kw, kh, channels, out].
	image := func(p *program, kernels []ggml.Type, channels, depth int64) (kernel, data *ggml.Tensor) {
		kernel = p.dense(kernels, p.size(4), p.size(3), channels, p.size(4))
		return kernel, p.dense(f32, p.size(12)+3, p.size(8)+2, channels, depth)
	}
	family(func(p *program) []any {
		kernel, data := image(p, halves, p.size(3), p.size(3))
		return list{kernel, data, [2]ggml.ConvDim{p.conv(), p.conv()}}
	}, "Conv2D Conv2DDirect")
	depthwise := func(types []ggml.Type) generator {
		return func(p *program) []any {
			channels := p.size(4)
			return list{p.dense(types, p.size(4), p.size(3), 1, channels), p.dense(f32, p.size(12)+3, p.size(8)+2, channels, p.size(3)), [2]ggml.ConvDim{p.conv(), p.conv()}}
		}
	}
	family(depthwise(f16), "ConvDepthwise2D")
	family(depthwise(f32), "ConvDepthwise2DDirect")
	family(func(p *program) []any {
		channels := p.size(3)
		return list{p.dense(f16, p.size(4), p.size(4), p.size(3), channels), p.dense(f32, p.size(8), p.size(6), channels, p.size(3)), int(p.size(3))}
	}, "ConvTranspose2D")
	family(func(p *program) []any {
		channels := p.size(3)
		return list{p.dense(halves, p.size(5), channels, p.size(4)), p.dense(f32, p.size(20)+4, channels, p.size(3)), p.conv()}
	}, "Conv1D")
	family(func(p *program) []any {
		channels := p.size(4)
		return list{p.dense(halves, p.size(5), 1, channels), p.dense(f32, p.size(20)+4, channels), p.conv()}
	}, "ConvDepthwise1D")
	family(func(p *program) []any {
		channels := p.size(4)
		return list{p.dense(halves, p.size(5), p.size(3), channels), p.dense(f32, p.size(20), channels), int(p.size(4))}
	}, "ConvTranspose1D")
	family(func(p *program) []any {
		k, out, stride := p.size(5), p.size(4), p.size(4)
		return list{p.dense(floats, k*out, p.size(12)), int(stride), int(out), p.IntN(2)}
	}, "Col2Im1D")
	volume := func(p *program) (kernel, data *ggml.Tensor, channels int) {
		n := p.size(3)
		return p.dense(halves, p.size(3), p.size(3), p.size(2), n*p.size(3)), p.dense(f32, p.size(6)+2, p.size(5)+2, p.size(4)+1, n*p.size(2)), int(n)
	}
	family(func(p *program) []any {
		kernel, data, channels := volume(p)
		return list{kernel, data, channels, [3]ggml.ConvDim{p.conv(), p.conv(), p.conv()}}
	}, "Conv3D Conv3DDirect")
	family(func(p *program) []any {
		kernel, data, channels := volume(p)
		return list{kernel, data, channels, p.oneOf(halves), [3]ggml.ConvDim{p.conv(), p.conv(), p.conv()}}
	}, "Im2Col3D")
	family(func(p *program) []any {
		if p.IntN(2) == 0 {
			channels := p.size(3)
			return list{p.dense(halves, p.size(5), channels, p.size(4)), p.dense(f32, p.size(20)+4, channels, p.size(3)), p.oneOf(halves), p.conv()}
		}
		kernel, data := image(p, halves, p.size(3), p.size(3))
		return list{kernel, data, p.oneOf(halves), p.conv(), p.conv()}
	}, "Im2Col")
	family(func(p *program) []any {
		kernel, data := image(p, f32, p.size(3), p.size(3))
		ne := dims(data)
		d := [2]ggml.ConvDim{{Stride: 1 + p.IntN(2), Padding: p.IntN(2), Dilation: 1}, {Stride: 1 + p.IntN(2), Padding: p.IntN(2), Dilation: 1}}
		positions := func(i int) int64 {
			return (ne[i]+2*int64(d[i].Padding)-(kernel.Dim(i)-1)-1)/int64(d[i].Stride) + 1
		}
		grad := p.dense(f32, kernel.Dim(0)*kernel.Dim(1)*kernel.Dim(2), max(1, positions(0)), max(1, positions(1)), ne[3])
		return list{grad, kernel, ne, d[0], d[1]}
	}, "Im2ColBack")
	window := func(p *program) ggml.PoolDim {
		d := ggml.PoolDim{Size: int(p.size(4)), Stride: p.IntN(4)}
		d.Padding = p.IntN(d.Size)
		return d
	}
	family(func(p *program) []any {
		d := window(p)
		return list{p.dense(halves, int64(d.Size)+p.size(20)-1, p.size(4), p.size(3)), ggml.Pool(p.IntN(2)), d}
	}, "Pool1D")
	family(func(p *program) []any {
		return list{p.dense(halves, p.size(12)+3, p.size(8)+3, p.size(3), p.size(2)), ggml.Pool(p.IntN(2)), [2]ggml.PoolDim{window(p), window(p)}}
	}, "Pool2D")
	family(func(p *program) []any {
		d := [2]ggml.PoolDim{window(p), window(p)}
		x := p.dense(f32, p.size(12)+3, p.size(8)+3, p.size(3), p.size(2))
		ne := dims(x)
		for i := range d {
			stride := d[i].Stride
			if stride == 0 {
				stride = d[i].Size
			}
			ne[i] = (ne[i]+2*int64(d[i].Padding)-int64(d[i].Size))/int64(stride) + 1
		}
		return list{p.dense(f32, ne[:]...), x, ggml.Pool(p.IntN(2)), d}
	}, "Pool2DBack")
}

func imageOps() {
	mode := func(p *program) ggml.ScaleMode {
		return []ggml.ScaleMode{ggml.ScaleNearest, ggml.ScaleBilinear, ggml.ScaleBicubic, ggml.ScaleBilinear | ggml.ScaleAntialias, ggml.ScaleBilinear | ggml.ScaleAlignCorners}[p.IntN(5)]
	}
	family(func(p *program) []any {
		return list{p.any(f32), mode(p), p.size(20), p.size(9), p.size(4), p.size(3)}
	}, "Interpolate")
	family(func(p *program) []any { return list{p.any(f32), 2 + p.IntN(3), mode(p)} }, "Upscale")
	few := func(p *program) (n [4]int) {
		for i := range n {
			n[i] = p.IntN(4)
		}
		return n
	}
	family(func(p *program) []any { return list{p.anyDense(f32), few(p)} }, "Pad")
	family(func(p *program) []any { return list{p.any(f32), few(p), few(p)} }, "PadExt")
	family(func(p *program) []any {
		a := p.any(f32)
		before := few(p)
		for i := range before {
			before[i] = min(before[i], int(a.Dim(i)))
		}
		return list{a, before, few(p)}
	}, "PadCircular")
	family(func(p *program) []any {
		a := p.anyDense(f32)
		return list{a, int(p.size(a.Dim(0))) - 1, int(p.size(a.Dim(0))) - 1}
	}, "PadReflect1D")
	family(func(p *program) []any {
		return list{p.anyDense(f32), [4]int{p.IntN(20) - 10, p.IntN(9) - 4, p.IntN(9) - 4, p.IntN(9) - 4}}
	}, "Roll")
	family(func(p *program) []any {
		n := p.size(20)
		return list{p.dense(f32, n, n, p.size(3), p.size(3)), ggml.Triangle(p.IntN(4))}
	}, "Tri")
	family(func(p *program) []any { return list{p.dense(f32, p.size(9)), int(p.size(40)), int(p.size(10000))} }, "TimestepEmbedding")
	family(func(p *program) []any {
		return list{p.dense(f32, p.size(20), p.size(12), p.size(12)), int(p.size(6))}
	}, "WinPart")
	family(func(p *program) []any {
		x, y, w := p.size(12), p.size(12), p.size(6)
		return list{p.dense(f32, p.size(20), w, w, (x+w-1)/w*((y+w-1)/w)), int(x), int(y)}
	}, "WinUnpart")
	family(func(p *program) []any {
		n := p.size(9)
		return list{p.dense(f16, p.size(20), 2*n-1), int(n)}
	}, "GetRelPos")
	family(func(p *program) []any {
		n, qw, qh, batch := p.size(6), p.size(4), p.size(4), p.size(3)
		return list{p.dense(f32, n*n, qw*qh, batch), p.dense(f32, n, qw, qh, batch), p.dense(f32, n, qw, qh, batch)}
	}, "AddRelPos AddRelPosInPlace")
}

func recurrentOps() {
	heads := func(p *program, n int64, operands int) (xs []any, state *ggml.Tensor, ne [3]int64) {
		sequences := p.size(3)
		ne = [3]int64{n, p.size(3), sequences * p.size(3)}
		for range operands {
			xs = append(xs, p.dense(f32, ne[:]...))
		}
		return xs, p.dense(f32, n*n*ne[1], sequences), ne
	}
	width := func(p *program) int64 { return []int64{1, 2, 5, 8, 16, 32, 64, 128}[p.IntN(8)] }
	family(func(p *program) []any {
		x, state, ne := heads(p, width(p), 4)
		return list{x[0], x[1], x[2], p.dense(f32, ne[0], ne[1]), x[3], state}
	}, "RWKV6")
	family(func(p *program) []any {
		x, state, _ := heads(p, 64*p.size(2), 6)
		return append(x, state)
	}, "RWKV7")
	family(func(p *program) []any {
		x, state, _ := heads(p, width(p), 4)
		return append(x, state, scalar(p))
	}, "GatedLinearAttention")
	family(func(p *program) []any {
		k, channels := p.size(5), p.size(40)
		return list{p.dense(f32, k-1+p.size(9), channels, p.size(3)), p.dense(f32, k, channels)}
	}, "SSMConv")
	family(func(p *program) []any {
		d, n, tokens, sequences := width(p), p.size(9), p.size(4), p.size(3)
		groups := p.size(2)
		heads, states := groups*p.size(3), sequences+p.size(2)
		decay := d
		if p.IntN(2) == 0 {
			decay = 1
		}
		return list{
			p.dense(f32, d, n, heads, states), p.dense(f32, n, heads, tokens, sequences), p.dense(f32, heads, tokens, sequences),
			p.dense(f32, decay, heads), p.dense(f32, d, groups, tokens, sequences), p.dense(f32, d, groups, tokens, sequences),
			p.ids(states, ggml.I32, sequences),
		}
	}, "SSMScan SSMScanStates")
	family(func(p *program) []any {
		n, kHeads, tokens, sequences := width(p), p.size(2), p.size(4), p.size(3)
		heads, gate := kHeads*p.size(2), int64(1)
		if p.IntN(2) == 0 {
			gate = n
		}
		return list{
			p.dense(f32, n, kHeads, tokens, sequences), p.dense(f32, n, kHeads, tokens, sequences), p.dense(f32, n, heads, tokens, sequences),
			p.dense(f32, gate, heads, tokens, sequences), p.dense(f32, 1, heads, tokens, sequences), p.dense(f32, n, n, heads, sequences),
		}
	}, "GatedDeltaNet GatedDeltaNetStates")
	family(func(p *program) []any {
		n, ne2, ne3 := p.size(20), p.size(3), p.size(2)
		return list{p.dense(f32, n, n, ne2, ne3), p.dense(f32, p.size(20), n, ne2, ne3)}
	}, "SolveTri")
}

func trainingOps() {
	family(func(p *program) []any {
		a := p.anyDense(f32)
		ne := dims(a)
		return list{a, p.dense(f32, ne[:]...)}
	}, "CrossEntropyLoss")
	family(func(p *program) []any {
		a := p.anyDense(f32)
		ne := dims(a)
		return list{p.dense(f32, 1), a, p.dense(f32, ne[:]...)}
	}, "CrossEntropyLossBack")
	param := func(p *program, operands int) []any {
		a := p.anyDense(f32).SetParam()
		ne := dims(a)
		args := list{a}
		for range operands {
			args = append(args, p.dense(f32, ne[:]...))
		}
		return args
	}
	family(func(p *program) []any { return append(param(p, 3), p.dense(f32, 7)) }, "OptStepAdamW")
	family(func(p *program) []any { return append(param(p, 3), p.dense(f32, 8)) }, "AdamWInPlace")
	family(func(p *program) []any { return append(param(p, 1), p.dense(f32, 2)) }, "OptStepSGD")
	family(oneDense(f32), "SumSquares")
}

func customOps() {
	few := func(p *program, most int) (x []any) {
		for range p.IntN(most + 1) {
			x = append(x, p.any(allTypes))
		}
		return x
	}
	family(func(p *program) []any {
		return append(list{p.customFunc(), p.IntN(4), p.any(floats)}, few(p, 2)...)
	}, "MapCustom MapCustomInPlace")
	family(func(p *program) []any {
		return append(list{p.customFunc(), p.IntN(4), p.any(floats)}, few(p, 8)...)
	}, "CustomInPlace")
	family(func(p *program) []any {
		ne := p.shape()
		return append(list{p.customFunc(), p.IntN(4), p.oneOf(floats), ne[:]}, few(p, 9)...)
	}, "Custom")
}

// customFunc draws a function that fills its share of the result; in wild
// programs it may fail.
func (p *program) customFunc() ggml.CustomFunc {
	if !p.wildData {
		return fillShare
	}
	return []ggml.CustomFunc{fillShare, failShare, panicShare, nil}[p.IntN(4)]
}

func fillShare(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
	from, to := w.Share(dst.NumRows())
	for i := from; i < to; i++ {
		row := dst.RowBytes(i)
		for j := range row {
			row[j] = byte(j)%64 + byte(len(src))
		}
	}
	return nil
}

func failShare(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
	return errCustom
}

func panicShare(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
	panic(errCustom)
}
