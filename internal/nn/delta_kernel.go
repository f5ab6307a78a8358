package nn

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// gatedDeltaRule returns the rule as a kernel. With bf16 it multiplies in BF16 where rows are long enough to be faster so.
func gatedDeltaRule(bf16 bool) func(t *Tape, d DeltaRule) Result[[]*ggml.Tensor] {
	return func(t *Tape, d DeltaRule) Result[[]*ggml.Tensor] { return nativeDeltaRule(t, d, bf16) }
}

// gatedDeltaStep returns the rule for the next tokens of sequences as a kernel.
func gatedDeltaStep(t *Tape, o Next[DeltaRule]) Stepped {
	c, d, slots := t.C, o.In, max(1, o.Rows.Dim(0)) // 0 if an op failed
	d.Rows = slots
	native := d.native(t)
	size, heads, n := d.V.T.Dim(0), d.V.T.Dim(1), d.V.T.Dim(2)
	native.State = c.Reshape(c.GetRows(o.States, o.Rows), size, size, heads, slots)
	return stepped(c, kernels.GatedDeltaRule(c, native), size, heads, n, slots)
}

// fillsChunks reports whether sequences have enough tokens, and one decay for all channels, for a kernel by chunks.
func fillsChunks(_ *Tape, o Next[DeltaRule]) bool {
	const least = 32
	return o.In.V.T.Dim(2) >= least*max(1, o.Rows.Dim(0)) && !o.In.byChannel()
}

func nativeDeltaRule(t *Tape, d DeltaRule, bf16 bool) Result[[]*ggml.Tensor] {
	c, native := t.C, d.native(t)
	native.BF16 = bf16 && native.V.Dim(2) >= longRow
	if d.Packed {
		native.Starts = d.starts(t)
	}
	y := c.Reshape(kernels.GatedDeltaRule(c, native), d.V.T.Shape()...)
	return Result[[]*ggml.Tensor]{y, func(dy *ggml.Tensor) []*ggml.Tensor {
		dq, dk, dv, dg, dbeta, dread := kernels.GatedDeltaRuleGrad(c, d.heads(c, dy), native)
		grads := []*ggml.Tensor{dq, dk, dv, dg, dbeta, dread}[:len(d.operands())]
		for i, x := range d.operands() {
			grads[i] = c.Reshape(grads[i], x.T.Shape()...)
		}
		return grads
	}}
}

// native returns the operands of a kernel, which all have the same rows.
func (d DeltaRule) native(t *Tape) kernels.DeltaRule {
	numbers := func(x *Value) *ggml.Tensor { return t.C.Reshape(contiguous(t.C, x.T), x.T.Dim(0), d.tokens(), d.Rows) }
	native := kernels.DeltaRule{Q: d.heads(t.C, d.Q.T), K: d.heads(t.C, d.K.T), V: d.heads(t.C, d.V.T), Beta: numbers(d.Beta)}
	if d.byChannel() {
		native.G = d.heads(t.C, d.G.T)
	} else {
		native.G = numbers(d.G)
	}
	if d.Read != nil {
		native.Read = d.heads(t.C, d.Read.T)
	}
	return native
}

// tokens returns the tokens of a row; 0 of a tensor that stands for a failure.
func (d DeltaRule) tokens() int64 { return d.V.T.Dim(2) / max(1, d.Rows) }

// heads divides x [size, heads, n·rows] into rows.
func (d DeltaRule) heads(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.Reshape(contiguous(c, x), x.Dim(0), x.Dim(1), d.tokens(), d.Rows)
}
