package nn

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// gatedDeltaRule returns the rule as a kernel. With bf16 it multiplies in BF16 where rows are long enough to be faster so.
func gatedDeltaRule(bf16 bool) func(t *Tape, d DeltaRule) *Value {
	return func(t *Tape, d DeltaRule) *Value {
		d, native := d.native(t)
		native.BF16 = bf16 && native.V.Dim(2) >= longRow
		if d.Packed {
			native.Starts = d.starts(t)
		}
		y := t.C.Reshape(kernels.GatedDeltaRule(t.C, native), d.V.T.Shape()...)
		return t.Op(y, func(dy *ggml.Tensor) []*ggml.Tensor { return d.nativeGrads(t.C, native, dy) }, d.operands()...)
	}
}

func (d DeltaRule) nativeGrads(c *ggml.Context, native kernels.DeltaRule, dy *ggml.Tensor) []*ggml.Tensor {
	dq, dk, dv, dg, dbeta, dread := kernels.GatedDeltaRuleGrad(c, d.vectors(c, dy), native)
	grads := []*ggml.Tensor{dq, dk, dv, dg, dbeta, dread}[:len(d.operands())]
	for i, x := range d.operands()[:3] {
		grads[i] = c.View(grads[i], []int64{x.T.Dim(0), x.T.Dim(1), x.T.Dim(2)}, []int64{grads[i].Stride(1), grads[i].Stride(2)}, 0)
	}
	for i, x := range d.operands()[3:] {
		grads[3+i] = c.Reshape(grads[3+i], x.T.Shape()...)
	}
	return grads
}

// gatedDeltaStep returns the rule for the next tokens of sequences as a kernel.
func gatedDeltaStep(t *Tape, o Next[DeltaRule]) Stepped {
	c, d, slots := t.C, o.In, o.Slots
	size, heads, n := d.V.T.Dim(0), d.V.T.Dim(1), d.V.T.Dim(2)
	d.Rows = slots
	_, native := d.native(t)
	native.State = c.Reshape(o.Before(), size, size, heads, slots)
	return stepped(c, kernels.GatedDeltaRule(c, native), size, heads, n, slots)
}

// fillsChunks reports whether a kernel computes the next tokens of sequences by chunks.
func fillsChunks(t *Tape, o Next[DeltaRule]) bool {
	o.In.Rows = o.Slots
	return o.In.chunked(t.C)
}

// chunked reports whether a kernel computes the rule by chunks.
func (d DeltaRule) chunked(c *ggml.Context) bool {
	return kernels.DeltaRule{V: d.heads(c, d.V.T), G: d.G.T, Beta: d.Beta.T}.Chunked()
}

// native returns the operands of a kernel, which all have the same rows, and the rule whose operands they are: queries and keys
// are normalised before if the kernel does not do it.
func (d DeltaRule) native(t *Tape) (DeltaRule, kernels.DeltaRule) {
	if d.Unit > 0 && !d.chunked(t.C) {
		d = t.normalised(d)
	}
	native := kernels.DeltaRule{Q: d.heads(t.C, d.Q.T), K: d.heads(t.C, d.K.T), V: d.heads(t.C, d.V.T), Beta: d.numbers(t.C, d.Beta.T), Unit: d.Unit}
	if d.byChannel() {
		native.G = d.vectors(t.C, d.G.T)
	} else {
		native.G = d.numbers(t.C, d.G.T)
	}
	if d.Read != nil {
		native.Read = d.vectors(t.C, d.Read.T)
	}
	return d, native
}

// tokens returns the tokens of a row; 0 of a tensor that stands for a failure.
func (d DeltaRule) tokens() int64 { return d.V.T.Dim(2) / max(1, d.Rows) }

// heads divides x [size, heads, n·rows], whose heads and tokens may lie apart, into rows.
func (d DeltaRule) heads(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor { return inRows(c, x, d.Rows) }

// vectors divides x [size, heads, n·rows] into rows, contiguous.
func (d DeltaRule) vectors(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.Reshape(contiguous(c, x), x.Dim(0), x.Dim(1), d.tokens(), d.Rows)
}

func (d DeltaRule) numbers(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return numbersInRows(c, x, d.Rows)
}
