package nn

import "github.com/goggml/ggml"

// AttentionOptions are what attention differs in from layer to layer.
type AttentionOptions struct {
	Scale  float32 // of q·k
	Window int     // number of keys that a query sees, with its own; 0 is all
	// In a graph of whole sequences:
	Rows   int64 // of equal length, which do not see each other
	Packed bool  // a row may hold several samples, which do not either
}

// Attend computes softmax(Scale · q·kᵀ)·v of each token over itself and those before it in its
// sample, from q [size, heads, n·rows] and k, v [size, kv heads, n·rows], to
// [size·heads, n·rows].
func (t *Tape) Attend(q, k, v *Value, o AttentionOptions) *Value {
	c, tokens := t.C, q.T.Dim(2)
	q, k, v = t.Sequences(q, o.Rows), t.Sequences(k, o.Rows), t.Sequences(v, o.Rows)
	shape := q.T.Shape()
	operands := AttentionOperands{Q: q.T, K: k.T, V: v.T, Scale: o.Scale, FirstVisible: t.visible(o, tokens/o.Rows)}
	y := &Value{
		T:         c.Reshape(t.Lowering.Attention(c, operands), q.T.Dim(0)*q.T.Dim(1), tokens),
		needsGrad: q.needsGrad || k.needsGrad || v.needsGrad,
	}
	t.record(y, func(dy *ggml.Tensor) {
		dq, dk, dv := t.Lowering.AttentionGrad(c, c.Reshape(dy, shape...), operands)
		t.flow(q, func() *ggml.Tensor { return dq })
		t.flow(k, func() *ggml.Tensor { return dk })
		t.flow(v, func() *ggml.Tensor { return dv })
	})
	return y
}

// visible is the first key that each query sees, nil where it sees all before it.
func (t *Tape) visible(o AttentionOptions, length int64) *ggml.Tensor {
	if int64(o.Window) >= length {
		o.Window = 0 // it hides nothing
	}
	if o.Window == 0 && !o.Packed {
		return nil
	}
	return t.FirstVisible(o.Window, length, o.Rows)
}
