package fuzz

import (
	"reflect"
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// A generator draws arguments that an op probably accepts.
type generator func(p *program) []any

type list = []any

// generators has an entry for each method of a context that creates a tensor, and for each such function of
// package kernels.
var generators = map[string]generator{}

// opNames are the keys of generators in order, so that a seed always gives the same program.
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
	kernelOps()
	for name := range generators {
		opNames = append(opNames, name)
	}
	slices.Sort(opNames)
}

// isOp reports whether a method of a context creates one or several tensors. BuildOp does so for the functions
// of package kernels.
func isOp(m reflect.Method) bool {
	t := m.Type
	return t.NumOut() > 0 && t.Out(0) == tensorType && m.Name != "Tensor" && m.Name != "BuildOp"
}

// An op is a method of a context or a function of package kernels: both are functions of a context and further
// arguments.
type op struct {
	name string
	f    reflect.Value
}

// opOf finds an op by its name.
func opOf(name string) (op, bool) {
	if f, ok := kernelFunctions[name]; ok {
		return op{name, reflect.ValueOf(f)}, true
	}
	m, ok := contextType.MethodByName(name)
	return op{name, m.Func}, ok
}

func one(types []ggml.Type) generator {
	return func(p *program) []any { return list{p.any(types)} }
}

func oneContiguous(types []ggml.Type, more ...func(p *program) any) generator {
	return func(p *program) []any {
		args := list{p.anyContiguous(types)}
		for _, f := range more {
			args = append(args, f(p))
		}
		return args
	}
}

func number(p *program) float32 { return float32(p.NormFloat64()) }
func scalar(p *program) any     { return number(p) }
func epsilon(p *program) any    { return smallNumber(p) }

func smallNumber(p *program) float32 { return []float32{1e-5, 1e-6, 0, 0.1}[p.IntN(4)] }

// maybe draws a tensor or nil.
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
	family(func(p *program) []any { return list{p.anyContiguous(allTypes).Layout()} }, "NewTensorOf")
	family(func(p *program) []any {
		a := p.any(allTypes)
		return list{a, a.Layout(), a.Type().BlockBytes() * (p.size(2) - 1)}
	}, "AliasOf")
	family(oneContiguous(plain), "DupInPlace")
	family(oneContiguous(f32, scalar), "Scale ScaleInPlace Fill FillInPlace")
	family(oneContiguous(f32, scalar, scalar), "ScaleBias ScaleBiasInPlace")
	family(oneContiguous(f32OrF16, scalar), "LeakyRelu LeakyReluInPlace")
	family(func(p *program) []any {
		low := float32(p.NormFloat64())
		return list{p.any(f32OrF16), low, low + p.Float32()}
	}, "Clamp ClampInPlace")
	family(func(p *program) []any {
		return list{p.any(floats), ggml.XIELUParams{AlphaN: number(p), AlphaP: number(p), Beta: number(p), Eps: number(p)}}
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
		a := p.any(f32OrF16)
		return list{ggml.GLU(p.IntN(5)), a, p.like(a, []ggml.Type{a.Type()})}
	}, "GLUSplit")
	family(func(p *program) []any {
		ne := p.shape()
		return list{ggml.GLU(p.IntN(5)), p.shaped(f32OrF16, [4]int64{2 * ne[0], ne[1], ne[2], ne[3]}), p.IntN(2) == 0}
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
		a := p.anyContiguous(f32OrF16)
		ne := dims(a)
		return list{a, p.contiguous([]ggml.Type{a.Type()}, ne[:]...)}
	}, "SiluBack")
	family(func(p *program) []any {
		a := p.anyContiguous(weights[1:])
		ne := dims(a)
		return list{a, p.contiguous(f32, ne[:]...), []ggml.Type{ggml.F32, a.Type()}[p.IntN(2)]}
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
		a := p.anyContiguous(f32)
		return list{a, int(p.size(a.Dim(2))), epsilon(p)}
	}, "GroupNorm GroupNormInPlace")
	family(func(p *program) []any { return list{p.shaped(f32, [4]int64{p.size(p.width), p.size(5), 1, 1})} }, "ArgMax")
	family(func(p *program) []any { return list{p.any(f32), ggml.SortOrder(p.IntN(2))} }, "ArgSort")
	family(func(p *program) []any {
		a := p.any(f32)
		return list{a, int(p.size(a.Dim(0)))}
	}, "TopK ArgSortTopK")
	family(func(p *program) []any {
		a := p.anyContiguous(i32)
		ne := dims(a)
		return list{a, p.contiguous(i32, ne[:]...)}
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
	family(func(p *program) []any { return reshaped(p, p.anyContiguous(allTypes)) }, "Reshape")
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
		a := p.anyContiguous(f32)
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
	// Moves factors from one dimension to another.
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
		strides[p.IntN(3)] = 0 // one row repeated
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
}

func attentionOps() {
	family(oneContiguous(f32), "SoftMax SoftMaxInPlace")
	mask := func(p *program, a *ggml.Tensor) *ggml.Tensor {
		return p.maybe(func() *ggml.Tensor {
			return p.contiguous(f32OrF16, a.Dim(0), a.Dim(1)+p.size(3)-1, p.divisor(a.Dim(2)), p.divisor(a.Dim(3)))
		})
	}
	bias := func(p *program, mask *ggml.Tensor) float32 {
		if mask == nil {
			return 0
		}
		return []float32{0, 0, 8}[p.IntN(3)]
	}
	family(func(p *program) []any {
		a := p.anyContiguous(f32)
		sinks := p.maybe(func() *ggml.Tensor { return p.contiguous(f32, a.Dim(2)) })
		m := mask(p, a)
		return list{a, ggml.SoftMaxOptions{Mask: m, Sinks: sinks, Scale: number(p), MaxBias: bias(p, m)}}
	}, "SoftMaxExt SoftMaxExtInPlace")
	family(func(p *program) []any {
		a := p.anyContiguous(f32)
		ne := dims(a)
		return list{a, p.contiguous(f32, ne[:]...), scalar(p)}
	}, "SoftMaxBack SoftMaxBackInPlace")
	family(func(p *program) []any { return list{p.anyContiguous(f32), p.IntN(6)} }, "DiagMaskInf DiagMaskInfInPlace DiagMaskZero DiagMaskZeroInPlace")
	family(func(p *program) []any {
		n := 2 * p.size(p.width/2)
		a := p.shaped(f32OrF16, [4]int64{n, p.size(4), p.size(5), p.size(2)})
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
		factors := p.maybe(func() *ggml.Tensor { return p.contiguous(f32, pairs) })
		return list{a, p.contiguous(i32, positions), factors, r}
	}, "RoPE RoPEBack RoPEInPlace")
	family(func(p *program) []any {
		heads, kv, batch := p.size(2), p.size(9), p.size(2)
		k := p.shaped(weights, [4]int64{p.size(p.width), kv, heads, batch})
		q := p.shaped(f32, [4]int64{k.Dim(0), p.size(5), heads * p.size(2), batch * p.size(2)})
		v := p.shaped([]ggml.Type{k.Type()}, [4]int64{p.size(p.width), kv, heads, batch})
		m := p.maybe(func() *ggml.Tensor {
			return p.contiguous(f16, kv, q.Dim(1)+p.size(3)-1, p.divisor(q.Dim(2)), p.divisor(q.Dim(3)))
		})
		sinks := p.maybe(func() *ggml.Tensor { return p.contiguous(f32, q.Dim(2)) })
		return list{q, k, v, ggml.AttentionOptions{Mask: m, Sinks: sinks, Scale: number(p), MaxBias: bias(p, m), Softcap: []float32{0, 0, 30}[p.IntN(3)]}}
	}, "FlashAttention")
	family(func(p *program) []any {
		d, heads, n, streams, kv := p.size(p.width), p.size(4), p.size(5), p.size(3), p.size(7)
		return list{p.contiguous(f32, d, heads, n, streams), p.contiguous(f32OrF16, d, 1, kv, streams), p.contiguous(f32, heads, n, 1, streams), p.contiguous(f16, kv, n, 1, p.divisor(streams))}
	}, "LightningIndexer")
	family(func(p *program) []any {
		return list{p.contiguous(f32, 24, p.size(6)), p.contiguous(f32, 3), p.contiguous(f32, 24), ggml.Sinkhorn{Eps: smallNumber(p), Iterations: int(p.size(5))}}
	}, "HyperConnectComb")
	family(func(p *program) []any {
		n, tokens := p.size(p.width), p.size(6)
		return list{p.contiguous(f32, n, 4, tokens), p.contiguous(f32, 4, tokens)}
	}, "HyperConnectPre")
	family(func(p *program) []any {
		n, tokens := p.size(p.width), p.size(6)
		return list{p.contiguous(f32, n, 4, tokens), p.contiguous(f32, n, 4, tokens), scalar(p)}
	}, "HyperConnectPreGated")
	family(func(p *program) []any {
		n, tokens := p.size(p.width), p.size(6)
		return list{p.contiguous(f32, n, tokens), p.contiguous(f32, n, 4, tokens), p.contiguous(f32, 4, tokens), p.maybe(func() *ggml.Tensor { return p.contiguous(f32, 4, 4, tokens) })}
	}, "HyperConnectPost")
}

func (p *program) conv() ggml.ConvDim {
	return ggml.ConvDim{Stride: p.IntN(4), Padding: p.IntN(4), Dilation: p.IntN(3)}
}

func convolutions() {
	// An image is [w, h, channels, batch], its kernel [kw, kh, channels, out].
	image := func(p *program, kernels []ggml.Type, channels, depth int64) (kernel, data *ggml.Tensor) {
		kernel = p.contiguous(kernels, p.size(4), p.size(3), channels, p.size(4))
		return kernel, p.contiguous(f32, p.size(12)+3, p.size(8)+2, channels, depth)
	}
	family(func(p *program) []any {
		kernel, data := image(p, f32OrF16, p.size(3), p.size(3))
		return list{kernel, data, [2]ggml.ConvDim{p.conv(), p.conv()}}
	}, "Conv2D Conv2DDirect")
	depthwise := func(types []ggml.Type) generator {
		return func(p *program) []any {
			channels := p.size(4)
			return list{p.contiguous(types, p.size(4), p.size(3), 1, channels), p.contiguous(f32, p.size(12)+3, p.size(8)+2, channels, p.size(3)), [2]ggml.ConvDim{p.conv(), p.conv()}}
		}
	}
	family(depthwise(f16), "ConvDepthwise2D")
	family(depthwise(f32), "ConvDepthwise2DDirect")
	family(func(p *program) []any {
		channels := p.size(3)
		return list{p.contiguous(f16, p.size(4), p.size(4), p.size(3), channels), p.contiguous(f32, p.size(8), p.size(6), channels, p.size(3)), int(p.size(3))}
	}, "ConvTranspose2D")
	family(func(p *program) []any {
		channels := p.size(3)
		return list{p.contiguous(f32OrF16, p.size(5), channels, p.size(4)), p.contiguous(f32, p.size(20)+4, channels, p.size(3)), p.conv()}
	}, "Conv1D")
	family(func(p *program) []any {
		channels := p.size(4)
		return list{p.contiguous(f32OrF16, p.size(5), 1, channels), p.contiguous(f32, p.size(20)+4, channels), p.conv()}
	}, "ConvDepthwise1D")
	family(func(p *program) []any {
		channels := p.size(4)
		return list{p.contiguous(f32OrF16, p.size(5), p.size(3), channels), p.contiguous(f32, p.size(20), channels), int(p.size(4))}
	}, "ConvTranspose1D")
	family(func(p *program) []any {
		k, out, stride := p.size(5), p.size(4), p.size(4)
		return list{p.contiguous(floats, k*out, p.size(12)), int(stride), int(out), p.IntN(2)}
	}, "Col2Im1D")
	volume := func(p *program) (kernel, data *ggml.Tensor, channels int) {
		n := p.size(3)
		return p.contiguous(f32OrF16, p.size(3), p.size(3), p.size(2), n*p.size(3)), p.contiguous(f32, p.size(6)+2, p.size(5)+2, p.size(4)+1, n*p.size(2)), int(n)
	}
	family(func(p *program) []any {
		kernel, data, channels := volume(p)
		return list{kernel, data, channels, [3]ggml.ConvDim{p.conv(), p.conv(), p.conv()}}
	}, "Conv3D Conv3DDirect")
	family(func(p *program) []any {
		kernel, data, channels := volume(p)
		return list{kernel, data, ggml.Im2Col3DOptions{Channels: channels, Type: p.oneOf(f32OrF16), Dims: [3]ggml.ConvDim{p.conv(), p.conv(), p.conv()}}}
	}, "Im2Col3D")
	family(func(p *program) []any {
		if p.IntN(2) == 0 {
			channels := p.size(3)
			return list{p.contiguous(f32OrF16, p.size(5), channels, p.size(4)), p.contiguous(f32, p.size(20)+4, channels, p.size(3)), p.oneOf(f32OrF16), p.conv()}
		}
		kernel, data := image(p, f32OrF16, p.size(3), p.size(3))
		return list{kernel, data, p.oneOf(f32OrF16), p.conv(), p.conv()}
	}, "Im2Col")
	family(func(p *program) []any {
		kernel, data := image(p, f32, p.size(3), p.size(3))
		ne := dims(data)
		d := [2]ggml.ConvDim{{Stride: 1 + p.IntN(2), Padding: p.IntN(2), Dilation: 1}, {Stride: 1 + p.IntN(2), Padding: p.IntN(2), Dilation: 1}}
		positions := func(i int) int64 {
			return (ne[i]+2*int64(d[i].Padding)-(kernel.Dim(i)-1)-1)/int64(d[i].Stride) + 1
		}
		grad := p.contiguous(f32, kernel.Dim(0)*kernel.Dim(1)*kernel.Dim(2), max(1, positions(0)), max(1, positions(1)), ne[3])
		return list{grad, kernel, ne, d[0], d[1]}
	}, "Im2ColBack")
	window := func(p *program) ggml.PoolDim {
		d := ggml.PoolDim{Size: int(p.size(4)), Stride: p.IntN(4)}
		d.Padding = p.IntN(d.Size)
		return d
	}
	family(func(p *program) []any {
		d := window(p)
		return list{p.contiguous(f32OrF16, int64(d.Size)+p.size(20)-1, p.size(4), p.size(3)), ggml.Pool(p.IntN(2)), d}
	}, "Pool1D")
	family(func(p *program) []any {
		return list{p.contiguous(f32OrF16, p.size(12)+3, p.size(8)+3, p.size(3), p.size(2)), ggml.Pool(p.IntN(2)), [2]ggml.PoolDim{window(p), window(p)}}
	}, "Pool2D")
	family(func(p *program) []any {
		d := [2]ggml.PoolDim{window(p), window(p)}
		x := p.contiguous(f32, p.size(12)+3, p.size(8)+3, p.size(3), p.size(2))
		ne := dims(x)
		for i := range d {
			stride := d[i].Stride
			if stride == 0 {
				stride = d[i].Size
			}
			ne[i] = (ne[i]+2*int64(d[i].Padding)-int64(d[i].Size))/int64(stride) + 1
		}
		return list{p.contiguous(f32, ne[:]...), x, ggml.Pool(p.IntN(2)), d}
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
	family(func(p *program) []any { return list{p.anyContiguous(f32), few(p)} }, "Pad")
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
		a := p.anyContiguous(f32)
		return list{a, int(p.size(a.Dim(0))) - 1, int(p.size(a.Dim(0))) - 1}
	}, "PadReflect1D")
	family(func(p *program) []any {
		return list{p.anyContiguous(f32), [4]int{p.IntN(20) - 10, p.IntN(9) - 4, p.IntN(9) - 4, p.IntN(9) - 4}}
	}, "Roll")
	family(func(p *program) []any {
		n := p.size(20)
		return list{p.contiguous(f32, n, n, p.size(3), p.size(3)), ggml.Triangle(p.IntN(4))}
	}, "Tri")
	family(func(p *program) []any { return list{p.contiguous(f32, p.size(9)), int(p.size(40)), int(p.size(10000))} }, "TimestepEmbedding")
	family(func(p *program) []any {
		return list{p.contiguous(f32, p.size(20), p.size(12), p.size(12)), int(p.size(6))}
	}, "WinPart")
	family(func(p *program) []any {
		x, y, w := p.size(12), p.size(12), p.size(6)
		return list{p.contiguous(f32, p.size(20), w, w, (x+w-1)/w*((y+w-1)/w)), int(x), int(y)}
	}, "WinUnpart")
	family(func(p *program) []any {
		n := p.size(9)
		return list{p.contiguous(f16, p.size(20), 2*n-1), int(n)}
	}, "GetRelPos")
	family(func(p *program) []any {
		n, qw, qh, batch := p.size(6), p.size(4), p.size(4), p.size(3)
		return list{p.contiguous(f32, n*n, qw*qh, batch), p.contiguous(f32, n, qw, qh, batch), p.contiguous(f32, n, qw, qh, batch)}
	}, "AddRelPos AddRelPosInPlace")
}

func recurrentOps() {
	heads := func(p *program, n int64, operands int) (xs []*ggml.Tensor, state *ggml.Tensor, ne [3]int64) {
		sequences := p.size(3)
		ne = [3]int64{n, p.size(3), sequences * p.size(3)}
		for range operands {
			xs = append(xs, p.contiguous(f32, ne[:]...))
		}
		return xs, p.contiguous(f32, n*n*ne[1], sequences), ne
	}
	width := func(p *program) int64 { return []int64{1, 2, 5, 8, 16, 32, 64, 128}[p.IntN(8)] }
	family(func(p *program) []any {
		x, state, ne := heads(p, width(p), 4)
		return list{ggml.RWKV6Operands{K: x[0], V: x[1], R: x[2], TimeFirst: p.contiguous(f32, ne[0], ne[1]), TimeDecay: x[3], State: state}}
	}, "RWKV6")
	family(func(p *program) []any {
		x, state, _ := heads(p, 64*p.size(2), 6)
		return list{ggml.RWKV7Operands{R: x[0], W: x[1], K: x[2], V: x[3], A: x[4], B: x[5], State: state}}
	}, "RWKV7")
	family(func(p *program) []any {
		x, state, _ := heads(p, width(p), 4)
		return list{ggml.GatedLinearAttentionOperands{K: x[0], V: x[1], Q: x[2], G: x[3], State: state, Scale: number(p)}}
	}, "GatedLinearAttention")
	family(func(p *program) []any {
		k, channels := p.size(5), p.size(40)
		return list{p.contiguous(f32, k-1+p.size(9), channels, p.size(3)), p.contiguous(f32, k, channels)}
	}, "SSMConv")
	family(func(p *program) []any {
		d, n, tokens, sequences := width(p), p.size(9), p.size(4), p.size(3)
		groups := p.size(2)
		heads, states := groups*p.size(3), sequences+p.size(2)
		decay := d
		if p.IntN(2) == 0 {
			decay = 1
		}
		return list{ggml.SSMScanOperands{
			State: p.contiguous(f32, d, n, heads, states), X: p.contiguous(f32, n, heads, tokens, sequences), DT: p.contiguous(f32, heads, tokens, sequences),
			A: p.contiguous(f32, decay, heads), B: p.contiguous(f32, d, groups, tokens, sequences), C: p.contiguous(f32, d, groups, tokens, sequences),
			IDs: p.ids(states, ggml.I32, sequences),
		}}
	}, "SSMScan SSMScanStates")
	family(func(p *program) []any {
		n, kHeads, tokens, sequences := width(p), p.size(2), p.size(4), p.size(3)
		heads, gate := kHeads*p.size(2), int64(1)
		if p.IntN(2) == 0 {
			gate = n
		}
		return list{ggml.GatedDeltaNetOperands{
			Q: p.contiguous(f32, n, kHeads, tokens, sequences), K: p.contiguous(f32, n, kHeads, tokens, sequences), V: p.contiguous(f32, n, heads, tokens, sequences),
			G: p.contiguous(f32, gate, heads, tokens, sequences), Beta: p.contiguous(f32, 1, heads, tokens, sequences), State: p.contiguous(f32, n, n, heads, sequences),
		}}
	}, "GatedDeltaNet GatedDeltaNetStates")
	family(func(p *program) []any {
		n, ne2, ne3 := p.size(20), p.size(3), p.size(2)
		return list{p.contiguous(f32, n, n, ne2, ne3), p.contiguous(f32, p.size(20), n, ne2, ne3)}
	}, "SolveTri")
}

func trainingOps() {
	family(func(p *program) []any {
		a := p.anyContiguous(f32)
		ne := dims(a)
		return list{a, p.contiguous(f32, ne[:]...)}
	}, "CrossEntropyLoss")
	family(func(p *program) []any {
		a := p.anyContiguous(f32)
		ne := dims(a)
		return list{p.contiguous(f32, 1), a, p.contiguous(f32, ne[:]...)}
	}, "CrossEntropyLossBack")
	family(func(p *program) []any {
		a := p.parameter(3)
		return list{ggml.AdamWOperands{Param: a[0].(*tensor), Grad: a[1].(*tensor), M: a[2].(*tensor), V: a[3].(*tensor), Settings: p.contiguous(f32, 7)}}
	}, "OptStepAdamW")
	family(func(p *program) []any { return append(p.parameter(1), p.contiguous(f32, 2)) }, "OptStepSGD")
}

// parameter draws a parameter, and a number of operands with its shape.
func (p *program) parameter(operands int) []any {
	a := p.anyContiguous(f32).SetParam()
	ne := dims(a)
	args := list{a}
	for range operands {
		args = append(args, p.contiguous(f32, ne[:]...))
	}
	return args
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
		return append(list{ggml.CustomOptions{Func: p.customFunc(), Threads: p.IntN(4), Type: p.oneOf(floats), Shape: ne[:]}}, few(p, 9)...)
	}, "Custom")
}

// customFunc draws a function that fills its share of the result; in wild programs it may fail.
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
