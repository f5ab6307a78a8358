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
