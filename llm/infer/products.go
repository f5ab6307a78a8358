package infer

import (
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/model"
)

// cpuProducts are the products of decoding on the CPU: GEMV of few tokens, GEMM of many
// where there is a library for it, repacked matrices, and adapters fused with the
// products. They have no gradients.
type cpuProducts struct {
	m       *model.Model
	fused   *fusedAdapters
	lowRank map[string]*nn.Value // A·x by group
	hasGEMM bool
}

func newCPUProducts(m *model.Model, fused *fusedAdapters) *cpuProducts {
	library, _ := kernels.GEMMLibrary()
	return &cpuProducts{m: m, fused: fused, lowRank: map[string]*nn.Value{}, hasGEMM: library != ""}
}

// A weight is what a product multiplies with: matrices that see the same input, one
// after the other.
type weight struct {
	w        *ggml.Tensor
	matrices []nn.Matrix
	repacked *model.Fused // nil for the matrix as it is in the file
}

func (w weight) rowMajor() bool { return w.repacked == nil || w.repacked.RowMajor }

// weightOf is the repacked copy of matrices, nil when there is none of just these.
func (p *cpuProducts) weightOf(matrices ...nn.Matrix) *weight {
	var names []string
	for _, m := range matrices {
		names = append(names, m.Name)
	}
	if f := p.m.Fused(names...); f != nil {
		return &weight{f.W, matrices, f}
	}
	if len(matrices) == 1 {
		return &weight{matrices[0].W, matrices, nil}
	}
	return nil
}

// Linear multiplies by as few ops as there can be.
func (p *cpuProducts) Linear(t *nn.Tape, x *nn.Value, matrices ...nn.Matrix) []*nn.Value {
	if slices.ContainsFunc(matrices, func(m nn.Matrix) bool { return m.Scale != nil }) {
		return p.scaled(t, x, matrices)
	}
	var list []*nn.Value
	for _, o := range p.multiply(t, x, matrices) {
		row := int64(0)
		for _, m := range o.matrices {
			part := o.y
			if len(o.matrices) > 1 {
				part = t.C.View(o.y, []int64{m.W.Dim(1), o.y.Dim(1)}, []int64{o.y.Stride(1)}, row*o.y.Stride(0))
				row += part.Dim(0)
			}
			if !o.adapted {
				part = p.addLoRA(t, part, x.T, m)
			}
			list = append(list, nn.Input(m.Finish(t.C, part)))
		}
	}
	return list
}

// scaled multiplies by matrices one by one: the factor is of W·x alone.
func (p *cpuProducts) scaled(t *nn.Tape, x *nn.Value, matrices []nn.Matrix) []*nn.Value {
	var list []*nn.Value
	for _, m := range matrices {
		w := p.weightOf(m)
		if w == nil {
			w = &weight{m.W, []nn.Matrix{m}, nil}
		}
		y := p.product(t, *w, p.castInput(t, *w, x))
		if m.Scale != nil {
			y = t.C.Mul(y, m.Scale)
		}
		list = append(list, nn.Input(m.Finish(t.C, p.addLoRA(t, y, x.T, m))))
	}
	return list
}

// An output is what one op makes of some matrices: their products with an x
// [Σ n_out, n], one after the other.
type output struct {
	y        *ggml.Tensor
	matrices []nn.Matrix
	adapted  bool // with what the adapters of all make of x
}

// multiply returns the products of matrices with x, with their adapters where one op
// can do it for all that are together.
func (p *cpuProducts) multiply(t *nn.Tape, x *nn.Value, matrices []nn.Matrix) []output {
	if y := p.gemvTogether(t, x.T, matrices); y != nil {
		return []output{p.addTogether(t, y, x, matrices)}
	}
	if w := p.weightOf(matrices...); w != nil {
		return []output{p.multiplyBy(t, *w, x)}
	}
	var list []output
	for _, m := range matrices {
		list = append(list, p.multiplyBy(t, *p.weightOf(m), x))
	}
	return list
}

// multiplyBy returns the product of x with the matrix that some are together.
func (p *cpuProducts) multiplyBy(t *nn.Tape, w weight, x *nn.Value) output {
	in := p.castInput(t, w, x)
	if p.byGEMM(w, in) && p.fused.adapts(w.matrices...) {
		y := kernels.GEMMLoRA(t.C, p.accumulation(w, in), kernels.Pair{W: w.w, X: in}, p.loraPairs(t, x.T, w.matrices)...)
		return output{y, w.matrices, true}
	}
	return p.addTogether(t, p.product(t, w, in), x, w.matrices)
}

// addTogether adds the adapters of matrices to their products y, if all have one.
func (p *cpuProducts) addTogether(t *nn.Tape, y *ggml.Tensor, x *nn.Value, matrices []nn.Matrix) output {
	return output{p.addLoRA(t, y, x.T, matrices...), matrices, p.fused.adapts(matrices...)}
}

// gemvTogether multiplies a single token by all matrices of an input, and by the A of
// their adapters, in one op; nil if one of them is not for GEMV. Of several tokens
// the products would not lie one after the other.
func (p *cpuProducts) gemvTogether(t *nn.Tape, x *ggml.Tensor, matrices []nn.Matrix) *ggml.Tensor {
	if x.Dim(1) > 1 {
		return nil
	}
	var ws []*ggml.Tensor
	if w := p.weightOf(matrices...); w != nil {
		if !p.byGEMV(*w, x) {
			return nil
		}
		ws = []*ggml.Tensor{w.w}
	} else {
		for _, m := range matrices {
			w := p.weightOf(m)
			if w == nil || !p.byGEMV(*w, x) {
				return nil
			}
			ws = append(ws, w.w)
		}
	}
	group := matrices[0].Name
	a := p.fused.a[group]
	if a == nil || matrices[0].NoLoRA {
		return kernels.GEMV(t.C, x, ws...)
	}
	all := kernels.GEMV(t.C, x, append(ws, a)...)
	rows := all.Dim(0) - a.Dim(1)
	p.lowRank[group] = nn.Input(t.C.View(all, []int64{a.Dim(1)}, nil, rows*all.Stride(0)))
	return t.C.View(all, []int64{rows}, nil, 0)
}

// product is W·x by the op that is fastest for it.
func (p *cpuProducts) product(t *nn.Tape, w weight, x *ggml.Tensor) *ggml.Tensor {
	if p.byGEMM(w, x) {
		return kernels.GEMM(t.C, p.accumulation(w, x), kernels.Pair{W: w.w, X: x})
	}
	return p.roundedProduct(t, w, x)
}

// roundedProduct is W·x with x rounded to suit the type of W, as by the device.
func (p *cpuProducts) roundedProduct(t *nn.Tape, w weight, x *ggml.Tensor) *ggml.Tensor {
	if p.byGEMV(w, x) {
		return kernels.GEMV(t.C, x, w.w)
	}
	return t.C.MulMat(w.w, x)
}

// gemmFrom is the number of tokens from which on a product with a matrix of a type
// takes less time by GEMM than by GEMV.
func gemmFrom(t ggml.Type) int64 {
	switch bf16 := kernels.FastestType() == ggml.BF16; {
	case kernels.HasBatchedGEMV(t) && !bf16:
		return 40
	case kernels.HasBatchedGEMV(t), t.IsQuantized() && !bf16:
		return 8
	}
	return 5
}

// byGEMM reports whether W·x is computed by GEMM: products of many tokens with
// matrices in the layout of the file. But quantised matrices are only if they were
// copied for speed, and if GEMM is fast: it is faster than the device's products of 8
// bits then, and rounds x less.
func (p *cpuProducts) byGEMM(w weight, x *ggml.Tensor) bool {
	if !p.hasGEMM || !w.rowMajor() || x.Dim(1) < gemmFrom(w.w.Type()) {
		return false
	}
	return !w.w.Type().IsQuantized() || w.repacked != nil && model.GEMMIsFast()
}

// byGEMV reports whether W·x, which is not computed by GEMM, is multiplied faster by
// GEMV than by the device's own op.
func (p *cpuProducts) byGEMV(w weight, x *ggml.Tensor) bool {
	const few = 8
	return w.rowMajor() && (x.Dim(1) < few || kernels.HasBatchedGEMV(w.w.Type()))
}

// usesLowPrecision reports whether the product is in the compute type. The device rounds x to
// suit the type of w, as in llama.cpp; GEMM does, where w has no more bits than BF16.
func (p *cpuProducts) usesLowPrecision(w weight, x *ggml.Tensor) bool {
	return p.byGEMM(w, x) && w.w.Type() != ggml.F32 && w.w.Type() != ggml.F16
}

// castInput is x as the product takes it.
func (p *cpuProducts) castInput(t *nn.Tape, w weight, x *nn.Value) *ggml.Tensor {
	if p.usesLowPrecision(w, x.T) {
		return t.LowPrecision(x)
	}
	return x.T
}

// accumulation is the precision in which a product by GEMM is added up.
func (p *cpuProducts) accumulation(w weight, x *ggml.Tensor) ggml.Precision {
	if p.usesLowPrecision(w, x) && kernels.FastestType() == ggml.F16 {
		return ggml.PrecisionF16
	}
	return ggml.PrecisionF32
}
