package fuzz

import (
	"maps"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

type ggmlContext = *ggml.Context

// kernelFunctions are the ops of package kernels, with tensors instead of structs.
var kernelFunctions = map[string]any{
	"GEMM": func(c ggmlContext, acc ggml.Precision, x ...*tensor) *tensor {
		return kernels.GEMM(c, acc, pairs(x)...)
	},
	"GEMMGradInput": func(c ggmlContext, acc ggml.Precision, x ...*tensor) *tensor {
		return kernels.GEMMGradInput(c, acc, pairs(x)...)
	},
	"GEMMInt": func(c ggmlContext, sum *tensor, x ...*tensor) *tensor {
		return kernels.GEMMInt(c, sum, pairs(x)...)
	},
	"GEMMGradInputInt": func(c ggmlContext, sum *tensor, x ...*tensor) *tensor {
		return kernels.GEMMGradInputInt(c, sum, pairs(x)...)
	},
	"GEMMGradInputI8": func(c ggmlContext, sum *tensor, x ...*tensor) *tensor {
		return kernels.GEMMGradInputI8(c, sum, pairs(x)...)
	},
	"GroupedGEMM":                 kernels.GroupedGEMM,
	"GroupedGEMMGradInput":        kernels.GroupedGEMMGradInput,
	"GroupedGEMMInt":              kernels.GroupedGEMMInt,
	"GroupedGEMMGradInputInt":     kernels.GroupedGEMMGradInputInt,
	"GroupedGEMMGradInputI8":      kernels.GroupedGEMMGradInputI8,
	"GroupedGEMV":                 kernels.GroupedGEMV,
	"AccumulateGroupedGradWeight": kernels.AccumulateGroupedGradWeight,
	"GEMMGradWeight":              kernels.GEMMGradWeight,
	"AccumulateGradWeight":        kernels.AccumulateGradWeight,
	"GEMMLoRA": func(c ggmlContext, acc ggml.Precision, hType ggml.Type, w, x *tensor, more ...*tensor) *tensor {
		return kernels.GEMMLoRA(c, acc, kernels.Pair{W: w, X: x}, loraPairs(hType, more)...)
	},
	"AddLoRA": func(c ggmlContext, hType ggml.Type, y *tensor, more ...*tensor) *tensor {
		return kernels.AddLoRA(c, y, loraPairs(hType, more)...)
	},
	"GEMV": kernels.GEMV,
	"CausalAttention": func(c ggmlContext, q, k, v, first, from, to, sinks *tensor, scale, softcap, maxBias float32) *tensor {
		scores := kernels.ScoreOptions{Softcap: softcap, MaxBias: maxBias, Sinks: sinks}
		return kernels.CausalAttention(c, kernels.Attention{Q: q, K: k, V: v, FirstVisible: first, HiddenFrom: from, HiddenTo: to, Scale: scale, Scores: scores})
	},
	"CausalAttentionGrad": func(c ggmlContext, dy, q, k, v, first, from, to, sinks *tensor, scale, softcap, maxBias float32) (dq, dk, dv, dsinks *tensor) {
		scores := kernels.ScoreOptions{Softcap: softcap, MaxBias: maxBias, Sinks: sinks}
		return kernels.CausalAttentionGrad(c, dy, kernels.Attention{Q: q, K: k, V: v, FirstVisible: first, HiddenFrom: from, HiddenTo: to, Scale: scale, Scores: scores})
	},
	"CausalAttentionBF16": func(c ggmlContext, q, k, v, first, from, to, sinks *tensor, scale, softcap, maxBias float32) (y, saved *tensor) {
		scores := kernels.ScoreOptions{Softcap: softcap, MaxBias: maxBias, Sinks: sinks}
		return kernels.CausalAttentionBF16(c, kernels.Attention{Q: q, K: k, V: v, FirstVisible: first, HiddenFrom: from, HiddenTo: to, Scale: scale, Scores: scores})
	},
	"CausalAttentionBF16Grad": func(c ggmlContext, dy, saved, q, k, v, first, from, to, sinks *tensor, scale, softcap, maxBias float32) (dq, dk, dv, dsinks *tensor) {
		scores := kernels.ScoreOptions{Softcap: softcap, MaxBias: maxBias, Sinks: sinks}
		return kernels.CausalAttentionBF16Grad(c, dy, saved, kernels.Attention{Q: q, K: k, V: v, FirstVisible: first, HiddenFrom: from, HiddenTo: to, Scale: scale, Scores: scores})
	},
	"CachedAttention": func(c ggmlContext, q, k, v, mask, sinks *tensor, scale, softcap, maxBias float32) *tensor {
		return kernels.CachedAttention(c, q, k, v, ggml.AttentionOptions{Mask: mask, Sinks: sinks, Scale: scale, Softcap: softcap, MaxBias: maxBias})
	},
	"ShortConvolution": func(c ggmlContext, x, kernel, before, bias, positions *tensor, step int, silu bool) *tensor {
		return kernels.ShortConvolution(c, kernels.ShortConv{X: x, Kernel: kernel, Before: before, Bias: bias, Positions: positions, Step: step, SiLU: silu})
	},
	"ShortConvolutionGrad": func(c ggmlContext, dy, x, kernel, before, bias, positions *tensor, step int, silu bool) *tensor {
		return kernels.ShortConvolutionGrad(c, dy, kernels.ShortConv{X: x, Kernel: kernel, Before: before, Bias: bias, Positions: positions, Step: step, SiLU: silu})
	},
	"SelectiveScan": func(c ggmlContext, x, dt, a, b, cc, states, read, written, d *tensor) *tensor {
		return kernels.SelectiveScan(c, kernels.ScanOperands{X: x, DT: dt, A: a, B: b, C: cc, D: d, States: states, Read: read, Written: written})
	},
	"GatedDeltaRule": func(c ggmlContext, q, k, v, g, beta, starts, read *tensor, unit float32, state *tensor) *tensor {
		return kernels.GatedDeltaRule(c, kernels.DeltaRule{Q: q, K: k, Read: read, V: v, G: g, Beta: beta, Starts: starts, State: state, Unit: unit})
	},
	"GatedDeltaRuleGrad": func(c ggmlContext, dy, q, k, v, g, beta, starts, read *tensor, unit float32) (dq, dk, dv, dg, dbeta, dread *tensor) {
		return kernels.GatedDeltaRuleGrad(c, dy, kernels.DeltaRule{Q: q, K: k, Read: read, V: v, G: g, Beta: beta, Starts: starts, Unit: unit})
	},
	"LayerNorm":           kernels.LayerNorm,
	"LayerNormGrad":       kernels.LayerNormGrad,
	"AddRMSNorm":          kernels.AddRMSNorm,
	"AddRMSNormGrad":      kernels.AddRMSNormGrad,
	"WeightedRMSNorm":     kernels.WeightedRMSNorm,
	"WeightedRMSNormGrad": kernels.WeightedRMSNormGrad,
	"SoftmaxCrossEntropy": func(c ggmlContext, logits, labels *tensor) (losses, normalisers *tensor) {
		return kernels.SoftmaxCrossEntropy(c, kernels.CrossEntropy{Logits: logits, Labels: labels})
	},
	"SoftmaxCrossEntropyGradInPlace": func(c ggmlContext, logits, labels, weights, normalisers *tensor) *tensor {
		return kernels.SoftmaxCrossEntropyGradInPlace(c, kernels.CrossEntropy{Logits: logits, Labels: labels}, weights, normalisers)
	},
	"SoftmaxDivergence": func(c ggmlContext, logits, labels, probs *tensor, beta float32) (losses, slopes *tensor) {
		return kernels.SoftmaxDivergence(c, kernels.Divergence{Logits: logits, Labels: labels, Probs: probs, Beta: beta})
	},
	"SoftmaxDivergenceGradInPlace": kernels.SoftmaxDivergenceGradInPlace,
	"CastBF16":                     kernels.CastBF16,
	"GateGELU":                     kernels.GateGELU,
	"GLUGradInPlace":               kernels.GLUGradInPlace,
	"AdamWStep": func(c ggmlContext, param, grad, m, v, settings *tensor) *tensor {
		return kernels.AdamWStep(c, kernels.AdamWOperands{Param: param, Grad: grad, M: m, V: v, Settings: settings})
	},
	"GateStep": func(c ggmlContext, squares, losses, weights, settings *tensor, clip float32) *tensor {
		return kernels.GateStep(c, kernels.GateOperands{Squares: squares, Losses: losses, Weights: weights, Settings: settings, Clip: float64(clip)})
	},
	"SumSquares": kernels.SumSquares,
}

// Kernels lists the ops of package kernels.
func Kernels() []string { return slices.Sorted(maps.Keys(kernelFunctions)) }

// Computes reports whether this processor has the instructions of an op.
func Computes(op string) bool {
	switch {
	case strings.HasPrefix(op, "CausalAttentionBF16"):
		return kernels.HasBF16Attention()
	case kernelFunctions[op] != nil && (strings.HasSuffix(op, "Int") || strings.HasSuffix(op, "I8")):
		return kernels.HasIntegers()
	}
	return true
}

// pairs groups operands into pairs; the last one may lack its partner.
func pairs(x []*tensor) (list []kernels.Pair) {
	for ; len(x) > 1; x = x[2:] {
		list = append(list, kernels.Pair{W: x[0], X: x[1]})
	}
	if len(x) == 1 {
		list = append(list, kernels.Pair{W: x[0]})
	}
	return list
}

func loraPairs(hType ggml.Type, x []*tensor) (list []kernels.LoRAPair) {
	for _, p := range pairs(x) {
		list = append(list, kernels.LoRAPair{B: p.W, H: p.X, HType: hType})
	}
	return list
}

func hasGEMMLibrary() bool {
	name, err := kernels.GEMMLibrary()
	return err == nil && name != ""
}

func accumulation(p *program) any {
	return []ggml.Precision{ggml.PrecisionF32, ggml.PrecisionAny, ggml.PrecisionF16}[p.IntN(3)]
}

// few draws a number of pairs or matrices: rarely more than an op accepts.
func (p *program) few() int {
	if p.simple {
		return 0
	}
	return []int{0, 0, 0, 1, 2, 3, 9}[p.IntN(7)]
}

// factorTypes are the types of the second factor of a GEMM.
func factorTypes() []ggml.Type {
	if kernels.HasBF16() {
		return []ggml.Type{ggml.F32, ggml.BF16}
	}
	return f32
}

func kernelOps() {
	productKernels(factorTypes())
	groupedKernels(factorTypes())
	loraKernels(factorTypes())
	attentionKernels()
	recurrenceKernels()
	lossKernels()
	normKernels()
	elementwiseKernels()
}

func productKernels(factors []ggml.Type) {
	family(func(p *program) []any {
		w, n := p.anyContiguous(weights), p.size(9)
		args := list{accumulation(p), w, p.contiguous(factors, w.Dim(0), n, w.Dim(2), w.Dim(3))}
		for range p.few() {
			k := p.size(9)
			args = append(args, p.contiguous(floats, k, w.Dim(1), w.Dim(2), w.Dim(3)), p.contiguous(factors, k, n, w.Dim(2), w.Dim(3)))
		}
		return args
	}, "GEMM")
	family(func(p *program) []any {
		w, n := p.anyContiguous(weights), p.size(9)
		args := list{accumulation(p), w, p.contiguous(factors, w.Dim(1), n, w.Dim(2), w.Dim(3))}
		for range p.few() {
			m := p.size(9)
			args = append(args, p.contiguous(floats, w.Dim(0), m, w.Dim(2), w.Dim(3)), p.contiguous(factors, m, n, w.Dim(2), w.Dim(3)))
		}
		return args
	}, "GEMMGradInput")
	family(func(p *program) []any {
		w, n := p.anyContiguous(weights), p.size(30)
		args := list{p.maybe(func() *tensor { return p.contiguous(f32, w.Dim(1), n, w.Dim(2), w.Dim(3)) }), w, p.contiguous(factors, w.Dim(0), n, w.Dim(2), w.Dim(3))}
		for range p.few() {
			k := p.size(90)
			args = append(args, p.contiguous(floats, k, w.Dim(1), w.Dim(2), w.Dim(3)), p.contiguous(factors, k, n, w.Dim(2), w.Dim(3)))
		}
		return args
	}, "GEMMInt")
	family(func(p *program) []any {
		w, n := p.anyContiguous(weights), p.size(30)
		args := list{p.maybe(func() *tensor { return p.contiguous(f32, w.Dim(0), n, w.Dim(2), w.Dim(3)) }), w, p.contiguous(factors, w.Dim(1), n, w.Dim(2), w.Dim(3))}
		for range p.few() {
			m := p.size(90)
			args = append(args, p.contiguous(floats, w.Dim(0), m, w.Dim(2), w.Dim(3)), p.contiguous(factors, m, n, w.Dim(2), w.Dim(3)))
		}
		return args
	}, "GEMMGradInputInt GEMMGradInputI8")
	family(func(p *program) []any {
		x := p.anyContiguous(factors)
		return list{x, p.contiguous([]ggml.Type{x.Type()}, p.size(9), x.Dim(1), x.Dim(2), x.Dim(3))}
	}, "GEMMGradWeight")
	family(func(p *program) []any {
		x, m := p.anyContiguous(factors), p.size(9)
		dw := p.contiguous(f32, x.Dim(0), m, x.Dim(2), x.Dim(3))
		return list{dw, x, p.contiguous([]ggml.Type{x.Type()}, m, x.Dim(1), x.Dim(2), x.Dim(3))}
	}, "AccumulateGradWeight")
	family(func(p *program) []any {
		w := p.anyContiguous(weights)
		args := list{p.contiguous(f32, w.Dim(0), p.size(9), w.Dim(2), w.Dim(3)), w}
		for range p.few() {
			args = append(args, p.contiguous([]ggml.Type{w.Type(), ggml.F16}, w.Dim(0), p.size(9), w.Dim(2), w.Dim(3)))
		}
		return args
	}, "GEMV")
}

func groupedKernels(factors []ggml.Type) {
	grouped := func(p *program, sum int) list {
		w, used, n := p.contiguous(weights, p.size(p.width), p.size(9), p.size(4)), p.size(3), p.size(9)
		columns := used
		if sum == 0 && p.IntN(2) == 0 {
			columns = 1
		}
		return list{w, p.contiguous(factors, w.Dim(sum), columns, n), p.ids(w.Dim(2), ggml.I32, used, n)}
	}
	family(func(p *program) []any { return grouped(p, 0) }, "GroupedGEMM GroupedGEMMInt")
	family(func(p *program) []any { return grouped(p, 0) }, "GroupedGEMV")
	family(func(p *program) []any { return grouped(p, 1) }, "GroupedGEMMGradInput GroupedGEMMGradInputInt GroupedGEMMGradInputI8")
	family(func(p *program) []any {
		used, n, k, m, experts := p.size(3), p.size(9), p.size(9), p.size(9), p.size(4)
		columns := used
		if p.IntN(2) == 0 {
			columns = 1
		}
		x := p.contiguous(factors, k, columns, n)
		dy := p.contiguous([]ggml.Type{x.Type()}, m, used, n)
		return list{p.contiguous(f32, k, m, experts), x, dy, p.ids(experts, ggml.I32, used, n)}
	}, "AccumulateGroupedGradWeight")
}

func loraKernels(factors []ggml.Type) {
	family(func(p *program) []any {
		args, n := p.lowRank(p.size(9), f32)
		return append(list{p.oneOf(hTypes), p.contiguous(f32, n, args[1].(*tensor).Dim(1))}, args...)
	}, "AddLoRA")
	family(func(p *program) []any {
		n, types := p.size(9), []ggml.Type{p.oneOf(factors)}
		args, m := p.lowRank(n, types)
		w := p.contiguous(weights, p.size(p.width), m)
		return append(list{accumulation(p), p.oneOf(hTypes), w, p.contiguous(types, w.Dim(0), n)}, args...)
	}, "GEMMLoRA")
}

func attentionKernels() {
	causal := func(p *program) list {
		size, groups, n, batch := p.size(p.width), p.size(3), p.size(80), p.size(2)
		keys := [4]int64{size, groups, n, batch}
		q := p.shaped(f32, [4]int64{size, groups * p.size(3), n, batch})
		bound := func() *tensor { return p.ids(n, ggml.I32, n, batch) }
		first, from := p.maybe(bound), p.maybe(bound)
		var to *tensor
		if from != nil {
			to = bound()
		}
		sinks := p.maybe(func() *tensor { return p.contiguous(f32, q.Dim(1)) })
		return list{q, p.shaped(f32, keys), p.shaped(f32, keys), first, from, to, sinks, scalar(p), []float32{0, 0, 30}[p.IntN(3)], []float32{0, 0, 8}[p.IntN(3)]}
	}
	family(func(p *program) []any { return causal(p) }, "CausalAttention")
	family(func(p *program) []any {
		args := causal(p)
		return append(list{p.like(args[0].(*tensor), f32)}, args...)
	}, "CausalAttentionGrad")
	family(func(p *program) []any { return causal(p) }, "CausalAttentionBF16")
	family(func(p *program) []any {
		args := causal(p)
		q := args[0].(*tensor)
		saved := p.contiguous(f32, q.NumElements()+q.Dim(1)*q.Dim(2)*q.Dim(3))
		return append(list{p.like(q, f32), saved}, args...)
	}, "CausalAttentionBF16Grad")
	family(func(p *program) []any {
		groups, keys, n, batch := p.size(3), p.size(300), p.size(150), p.size(2)
		k, v := p.shaped(weights, [4]int64{p.size(p.width), keys, groups, batch}), p.shaped(weights, [4]int64{p.size(p.width), keys, groups, batch})
		q := p.shaped(f32, [4]int64{k.Dim(0), n, groups * p.size(3), batch})
		mask, sinks := p.contiguous(f16, keys, n, 1, batch), p.maybe(func() *tensor { return p.contiguous(f32, q.Dim(2)) })
		return list{q, k, v, mask, sinks, scalar(p), []float32{0, 0, 30}[p.IntN(3)], []float32{0, 0, 8}[p.IntN(3)]}
	}, "CachedAttention")
}

func recurrenceKernels() {
	conv := func(p *program) (x list, result [4]int64) {
		m, n, rows := p.size(p.width), p.size(80), p.size(2)
		before := p.maybe(func() *tensor { return p.shaped(f32, [4]int64{m, p.size(9), rows, 1}) })
		positions := p.maybe(func() *tensor { return p.ids(n, ggml.I32, n, rows) })
		bias := p.maybe(func() *tensor { return p.contiguous(f32, m) })
		x = list{p.shaped(f32, [4]int64{m, n, rows, 1}), p.contiguous(f32, p.size(5), m), before, bias, positions, int(p.size(3)), p.IntN(2) == 0}
		return x, [4]int64{m, n, rows, 1}
	}
	family(func(p *program) []any {
		x, _ := conv(p)
		return x
	}, "ShortConvolution")
	family(func(p *program) []any {
		x, result := conv(p)
		return append(list{p.shaped(f32, result)}, x...)
	}, "ShortConvolutionGrad")
	family(func(p *program) []any {
		size, groups, n, rows, vectors, d := p.size(40), p.size(3), p.size(20), p.size(3), p.size(4), p.size(p.width)
		heads := groups * p.size(3)
		shared := func() *tensor { return p.shaped(f32, [4]int64{d, groups, n, rows}) }
		vector := func() *tensor { return p.ids(vectors, ggml.I32, rows) }
		return list{
			p.shaped(f32, [4]int64{size, heads, n, rows}), p.contiguous(f32, heads, n, rows), p.contiguous(f32, heads), shared(), shared(),
			p.contiguous(f32, d*size*heads, vectors), vector(), vector(), p.maybe(func() *tensor { return p.contiguous(f32, heads) }),
		}
	}, "SelectiveScan")
	delta := func(p *program) list {
		size, keys, n, rows := p.size(p.width), p.size(3), p.size(80), p.size(2)
		heads := keys * p.size(3)
		if p.IntN(2) == 0 { // enough for chunks, which alone normalise
			size, n = max(size, 32), max(n, 32)
		}
		key := func() *tensor { return p.shaped(f32, [4]int64{size, keys, n, rows}) }
		gate := func() *tensor { return p.contiguous(f32, heads, n, rows) }
		channels := func() *tensor { return p.contiguous(f32, size, heads, n, rows) }
		starts := p.maybe(func() *tensor { return p.ids(n, ggml.I32, n, rows) })
		rates, unit := []func() *tensor{gate, channels}[p.IntN(2)](), float32(0)
		if hasGEMMLibrary() && min(size, n) >= 32 && rates.Dim(0) == heads && p.IntN(2) == 0 {
			unit = 1e-3
		}
		read := p.maybe(func() *tensor { return p.contiguous(f32, size, keys, n, rows) })
		return list{key(), key(), p.shaped(f32, [4]int64{size, heads, n, rows}), rates, gate(), starts, read, unit}
	}
	family(func(p *program) []any {
		args := delta(p)
		v := dims(args[2].(*tensor))
		var state *tensor
		if 4*v[0]*v[0]*v[1]*v[3] <= maxBytes {
			state = p.maybe(func() *tensor { return p.contiguous(f32, v[0], v[0], v[1], v[3]) })
		}
		return append(args, state)
	}, "GatedDeltaRule")
	family(func(p *program) []any {
		args := delta(p)
		ne := dims(args[2].(*tensor))
		return append(list{p.contiguous(f32, ne[:]...)}, args...)
	}, "GatedDeltaRuleGrad")
}

func lossKernels() {
	labelled := func(p *program, k int64) (args list, rows int64) {
		logits := p.anyContiguous(f32)
		rows = logits.NumElements() / logits.Dim(0)
		return list{logits, p.ids(logits.Dim(0), ggml.I32, k, rows)}, rows
	}
	family(func(p *program) []any {
		args, _ := labelled(p, 1)
		return args
	}, "SoftmaxCrossEntropy")
	family(func(p *program) []any {
		args, rows := labelled(p, 1)
		return append(args, p.contiguous(f32, rows), p.contiguous(f32, rows, 2))
	}, "SoftmaxCrossEntropyGradInPlace")
	family(func(p *program) []any {
		k := p.size(3)
		args, rows := labelled(p, k)
		return append(args, p.contiguous(f32, k+1, rows), float32(p.IntN(3))/2)
	}, "SoftmaxDivergence")
	family(func(p *program) []any {
		k := p.size(3)
		args, rows := labelled(p, k)
		return append(args, p.contiguous(f32, rows), p.contiguous(f32, k+3, rows))
	}, "SoftmaxDivergenceGradInPlace")
}

func normKernels() {
	family(func(p *program) []any {
		x := p.any(f32)
		return list{x, p.maybe(func() *tensor { return p.contiguous(f32, x.Dim(0)) }), epsilon(p)}
	}, "WeightedRMSNorm")
	family(func(p *program) []any {
		x := p.any(f32)
		return list{p.like(x, f32), x, p.maybe(func() *tensor { return p.contiguous(f32, x.Dim(0)) }), epsilon(p)}
	}, "WeightedRMSNormGrad")
	family(func(p *program) []any {
		x := p.any(f32)
		return list{x, p.like(x, f32), p.contiguous(f32, x.Dim(0)), epsilon(p)}
	}, "AddRMSNorm")
	family(func(p *program) []any {
		x := p.any(f32)
		return list{p.like(x, f32), p.like(x, f32), x, p.contiguous(f32, x.Dim(0)), epsilon(p)}
	}, "AddRMSNormGrad")
	family(func(p *program) []any {
		x := p.any(f32)
		vector := func() *tensor { return p.contiguous(f32, x.Dim(0)) }
		return list{x, p.maybe(vector), p.maybe(vector), epsilon(p)}
	}, "LayerNorm")
	family(func(p *program) []any {
		x := p.any(f32)
		return list{p.like(x, f32), x, p.maybe(func() *tensor { return p.contiguous(f32, x.Dim(0)) }), epsilon(p)}
	}, "LayerNormGrad")
}

func elementwiseKernels() {
	family(oneContiguous(f32), "CastBF16 SumSquares")
	family(func(p *program) []any {
		gate := p.anyContiguous(f32)
		ne := dims(gate)
		return list{gate, p.contiguous(f32, ne[:]...)}
	}, "GateGELU")
	family(func(p *program) []any {
		up := p.anyContiguous(f32)
		ne := dims(up)
		act := []ggml.GLU{ggml.SwiGLU, ggml.GeGLU}[p.IntN(2)]
		return list{act, up, p.contiguous(f32, ne[:]...), p.contiguous(f32, ne[:]...)}
	}, "GLUGradInPlace")
	family(func(p *program) []any { return append(p.parameter(3), p.contiguous(f32, 8)) }, "AdamWStep")
	family(func(p *program) []any {
		losses := p.contiguous(f32, p.size(40))
		return list{p.contiguous(f32, 1), losses, p.like(losses, f32), p.contiguous(f32, 8, 1+p.size(4)), epsilon(p)}
	}, "GateStep")
}

// hTypes are the types to which pairs round H, rarely an invalid one.
var hTypes = []ggml.Type{ggml.F32, ggml.F32, ggml.F16, ggml.BF16, ggml.Q8_0}

// lowRank draws pairs of B and H with n columns, and returns their number of rows.
func (p *program) lowRank(n int64, types []ggml.Type) (args []any, rows int64) {
	for range 1 + p.few() {
		m, rank := p.size(40), p.size(9)
		args = append(args, p.contiguous(floats, m, rank), p.contiguous(types, rank, n))
		rows += m
	}
	return args, rows
}
