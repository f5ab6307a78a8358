package nn

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// gatedDeltaRule returns the rule as a kernel. With bf16 it multiplies in BF16 where rows are long enough to be faster so.
func gatedDeltaRule(bf16 bool) func(t *Tape, d DeltaRule) Result[[]*ggml.Tensor] {
	return func(t *Tape, d DeltaRule) Result[[]*ggml.Tensor] { return nativeDeltaRule(t, d, bf16) }
}

func nativeDeltaRule(t *Tape, d DeltaRule, bf16 bool) Result[[]*ggml.Tensor] {
	c, n := t.C, d.V.T.Dim(2)/max(1, d.Rows) // 0 of a tensor that stands for a failure
	heads := func(x *ggml.Tensor) *ggml.Tensor {
		return c.Reshape(contiguous(c, x), x.Dim(0), x.Dim(1), n, d.Rows)
	}
	numbers := func(x *Value) *ggml.Tensor { return c.Reshape(contiguous(c, x.T), d.V.T.Dim(1), n, d.Rows) }
	rates := numbers
	if d.byChannel() {
		rates = func(x *Value) *ggml.Tensor { return heads(x.T) }
	}
	native := kernels.DeltaRule{Q: heads(d.Q.T), K: heads(d.K.T), V: heads(d.V.T), G: rates(d.G), Beta: numbers(d.Beta)}
	native.BF16 = bf16 && n >= longRow && !d.byChannel()
	if d.Read != nil {
		native.Read = heads(d.Read.T)
	}
	if d.Packed {
		native.Starts = d.starts(t)
	}
	y := c.Reshape(kernels.GatedDeltaRule(c, native), d.V.T.Shape()...)
	return Result[[]*ggml.Tensor]{y, func(dy *ggml.Tensor) []*ggml.Tensor {
		dq, dk, dv, dg, dbeta, dread := kernels.GatedDeltaRuleGrad(c, heads(dy), native)
		grads := []*ggml.Tensor{dq, dk, dv, dg, dbeta, dread}[:len(d.operands())]
		for i, x := range d.operands() {
			grads[i] = c.Reshape(grads[i], x.T.Shape()...)
		}
		return grads
	}}
}
