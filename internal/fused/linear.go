package fused

import (
	"io"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/kernels"
)

// Fuse returns a row of [nn.Linear] for the groups with their adapters, without gradients, which uses repacked copies
// if there are any. mixed is the number of adapters if each token uses one of them, see [nn.Mix]; 0: each token uses all. The row is
// valid until the closer is closed.
func Fuse(p *Repacked, groups []nn.MatrixGroup, of nn.Adapters, mixed int) (nn.Row, io.Closer, error) {
	a, err := fuse(groups, of, mixed)
	if err != nil {
		return nn.Row{}, nil, err
	}
	library, _ := kernels.GEMMLibrary()
	f := &linear{repacked: p, adapters: a, hasGEMM: library != ""}
	return nn.Linear.By(f.build), f, nil
}

// linear builds products: GEMV for few tokens and GEMM for many if there is a library, with
// repacked matrices, and with adapters in the same op.
type linear struct {
	repacked *Repacked // nil to use the matrices of the file
	adapters *adapters
	hasGEMM  bool
}

// Close frees the adapters. It never fails.
func (l *linear) Close() error {
	l.adapters.close()
	return nil
}

// build multiplies by as few ops as possible.
func (l *linear) build(t *nn.Tape, o nn.LinearOperands) []*nn.Value {
	i, matrices := &input{linear: l, Tape: t, x: o.X}, o.Matrices
	if slices.ContainsFunc(matrices, func(m nn.Matrix) bool { return m.Scale != nil }) {
		return i.scaled(matrices)
	}
	var list []*nn.Value
	for _, o := range i.multiply(matrices) {
		row := int64(0)
		for _, m := range o.matrices {
			part := o.y
			if len(o.matrices) > 1 {
				part = t.C.View(o.y, []int64{m.W.Dim(1), o.y.Dim(1)}, []int64{o.y.Stride(1)}, row*o.y.Stride(0))
				row += part.Dim(0)
			}
			if !o.adapted {
				part = i.addLoRA(part, m)
			}
			list = append(list, nn.Input(m.Finish(t.C, part)))
		}
	}
	return list
}

// An input is a tensor [n_in, n] that is multiplied by matrices.
type input struct {
	*linear
	*nn.Tape
	x *nn.Value
	h *ggml.Tensor // h = A·x of all adapters, computed on first use
}

// A weight is the weight of a product: matrices with the same input, concatenated.
type weight struct {
	w        *ggml.Tensor
	matrices []nn.Matrix
	repacked *repackedMatrix // nil for the matrix of the file
}

func (w weight) rowMajor() bool { return w.repacked == nil || w.repacked.rowMajor }

// weightOf returns the copy of exactly these matrices, or nil.
func (l *linear) weightOf(matrices ...nn.Matrix) *weight {
	if p := l.repacked.of(matrices); p != nil {
		return &weight{p.w, matrices, p}
	}
	if len(matrices) == 1 {
		return &weight{matrices[0].W, matrices, nil}
	}
	return nil
}

// scaled multiplies by matrices one by one: the factor applies only to W·x.
func (i *input) scaled(matrices []nn.Matrix) []*nn.Value {
	var list []*nn.Value
	for _, m := range matrices {
		w := i.weightOf(m)
		y := i.product(*w, i.castInput(*w))
		if m.Scale != nil {
			y = i.C.Mul(y, m.Scale)
		}
		list = append(list, nn.Input(m.Finish(i.C, i.addLoRA(y, m))))
	}
	return list
}

// An output is the result of one op for some matrices: their products with x [Σ n_out, n],
// concatenated.
type output struct {
	y        *ggml.Tensor
	matrices []nn.Matrix
	adapted  bool // includes the adapters of all these matrices
}

// multiply returns the products of matrices. If the matrices are fused, one op also adds their
// adapters if it can.
func (i *input) multiply(matrices []nn.Matrix) []output {
	if y := i.gemvTogether(matrices); y != nil {
		return []output{i.addTogether(y, matrices)}
	}
	if w := i.weightOf(matrices...); w != nil {
		return []output{i.multiplyBy(*w)}
	}
	var list []output
	for _, m := range matrices {
		list = append(list, i.multiplyBy(*i.weightOf(m)))
	}
	return list
}

// multiplyBy returns the product with a fused matrix.
func (i *input) multiplyBy(w weight) output {
	x := i.castInput(w)
	if i.byGEMM(w, x) && !takesIntegers(w.w) && i.adapters.adapt(w.matrices) {
		y := kernels.GEMMLoRA(i.C, i.accumulation(w, x), kernels.Pair{W: w.w, X: x}, i.loraPairs(w.matrices)...)
		return output{y, w.matrices, true}
	}
	return i.addTogether(i.product(w, x), w.matrices)
}

// addTogether adds the adapters of matrices to their products y, if all have one.
func (i *input) addTogether(y *ggml.Tensor, matrices []nn.Matrix) output {
	return output{i.addLoRA(y, matrices...), matrices, i.adapters.adapt(matrices)}
}

// addLoRA adds the adapters' products of matrices to y, their concatenated products, which must
// have memory of its own.
func (i *input) addLoRA(y *ggml.Tensor, matrices ...nn.Matrix) *ggml.Tensor {
	if !i.adapters.adapt(matrices) {
		return y
	}
	return kernels.AddLoRA(i.C, y, i.loraPairs(matrices)...)
}

// loraPairs returns the pairs of B and h = A·x of the adapters of matrices.
func (i *input) loraPairs(matrices []nn.Matrix) []kernels.LoRAPair {
	var pairs []kernels.LoRAPair
	for _, m := range matrices {
		p := i.adapters.of(m)
		if i.h == nil {
			i.h = i.lowRankProduct(p.a)
			if p.of != nil {
				i.h = i.C.Mul(i.h, i.C.MulMat(p.of, i.Owners(i.h.Dim(1))))
			}
		}
		rows := i.C.View(i.h, []int64{p.b.Dim(1), i.x.T.Dim(1)}, []int64{i.h.Stride(1)}, p.row*i.h.Stride(0))
		pairs = append(pairs, kernels.LoRAPair{B: p.b, H: rows, HType: roundsTo(p.a.Type())})
	}
	return pairs
}

// roundsTo returns the type to which MulMat rounds the second operand for a first one in a float type.
func roundsTo(t ggml.Type) ggml.Type {
	if t == ggml.BF16 {
		return ggml.BF16
	}
	return ggml.F32
}

// lowRankProduct returns A·x, with x rounded if A is BF16.
func (i *input) lowRankProduct(a *ggml.Tensor) *ggml.Tensor {
	x := i.x.T
	if roundsTo(a.Type()) == ggml.F32 && i.hasGEMM && x.Dim(1) >= gemmFrom(a.Type()) {
		return kernels.GEMM(i.C, ggml.PrecisionF32, kernels.Pair{W: a, X: x})
	}
	return i.roundedProduct(weight{w: a}, x)
}

// gemvTogether multiplies a single token by all matrices, and by the A of their adapters, in one
// op; nil if GEMV does not suit one of them. With several tokens the products would not be
// contiguous.
func (i *input) gemvTogether(matrices []nn.Matrix) *ggml.Tensor {
	x := i.x.T
	if x.Dim(1) > 1 {
		return nil
	}
	var ws []*ggml.Tensor
	if w := i.weightOf(matrices...); w != nil {
		if !i.byGEMV(*w, x) {
			return nil
		}
		ws = []*ggml.Tensor{w.w}
	} else {
		for _, m := range matrices {
			w := i.weightOf(m)
			if !i.byGEMV(*w, x) {
				return nil
			}
			ws = append(ws, w.w)
		}
	}
	a := i.lowRank(matrices)
	if a == nil {
		return kernels.GEMV(i.C, x, ws...)
	}
	all := kernels.GEMV(i.C, x, append(ws, a)...)
	rows := all.Dim(0) - a.Dim(1)
	i.h = i.C.View(all, []int64{a.Dim(1)}, nil, rows*all.Stride(0))
	return i.C.View(all, []int64{rows}, nil, 0)
}

// lowRank returns the A of the matrices' adapters; nil if none has an adapter.
func (i *input) lowRank(matrices []nn.Matrix) *ggml.Tensor {
	for _, m := range matrices {
		if a := i.adapters.of(m).a; a != nil {
			return a
		}
	}
	return nil
}

// product returns W·x by the fastest op.
func (i *input) product(w weight, x *ggml.Tensor) *ggml.Tensor {
	switch {
	case i.byGEMM(w, x) && takesIntegers(w.w):
		return kernels.GEMMInt(i.C, nil, kernels.Pair{W: w.w, X: x})
	case i.byGEMM(w, x):
		return kernels.GEMM(i.C, i.accumulation(w, x), kernels.Pair{W: w.w, X: x})
	}
	return i.roundedProduct(w, x)
}

// roundedProduct returns W·x with x rounded to suit the type of W, as the device does.
func (i *input) roundedProduct(w weight, x *ggml.Tensor) *ggml.Tensor {
	if i.byGEMV(w, x) {
		return kernels.GEMV(i.C, x, w.w)
	}
	return i.C.MulMat(w.w, x)
}

// castInput returns x in the type that the product takes.
func (i *input) castInput(w weight) *ggml.Tensor {
	if i.usesLowPrecision(w, i.x.T) {
		return i.LowPrecision(i.x)
	}
	return i.x.T
}

// gemmFrom returns the number of tokens from which GEMM is faster than GEMV for a matrix of a type.
func gemmFrom(t ggml.Type) int64 {
	const large = 256
	switch fastest := nn.FastestType(); {
	case kernels.HasBatchedGEMV(t) && fastest == ggml.BF16:
		return 32 // GEMM dequantises the matrix, which takes as long as some 25 columns
	case kernels.HasBatchedGEMV(t) && t.BlockSize() == large && fastest == ggml.I16:
		return 64
	case kernels.HasBatchedGEMV(t):
		return 40
	case t.IsQuantized() && fastest != ggml.BF16:
		return 8
	}
	return 5
}

// byGEMM reports whether GEMM computes W·x: products of many tokens with row-major matrices.
// Quantised matrices qualify only if they were copied for speed, and GEMM is fast: then it is
// faster than the device's 8-bit products, and rounds x less.
func (l *linear) byGEMM(w weight, x *ggml.Tensor) bool {
	if !l.hasGEMM || !w.rowMajor() || x.Dim(1) < gemmFrom(w.w.Type()) {
		return false
	}
	return !w.w.Type().IsQuantized() || w.repacked != nil && gemmIsFast()
}

// takesIntegers reports whether GEMM multiplies a matrix in integers of 16 bits. They round x less than the device's 8 bits do.
func takesIntegers(w *ggml.Tensor) bool {
	return nn.FastestType() == ggml.I16 && w.Type() != ggml.F32 && nn.TakesIntegers(w)
}

// byGEMV reports whether GEMV multiplies W·x, which GEMM does not compute, faster than the device's
// own op.
func (l *linear) byGEMV(w weight, x *ggml.Tensor) bool {
	const few = 8
	return w.rowMajor() && (x.Dim(1) < few || kernels.HasBatchedGEMV(w.w.Type()))
}

// usesLowPrecision reports whether the product uses the compute type. The device rounds x to suit
// the type of w, as in llama.cpp; GEMM does so if w has no more bits than BF16.
func (l *linear) usesLowPrecision(w weight, x *ggml.Tensor) bool {
	return l.byGEMM(w, x) && w.w.Type() != ggml.F32 && w.w.Type() != ggml.F16
}

// accumulation returns the precision in which GEMM accumulates a product.
func (l *linear) accumulation(w weight, x *ggml.Tensor) ggml.Precision {
	if l.usesLowPrecision(w, x) && kernels.FastestType() == ggml.F16 {
		return ggml.PrecisionF16
	}
	return ggml.PrecisionF32
}
