package nn

import "github.com/goggml/ggml"

// AttentionOptions are what attention differs in from layer to layer.
type AttentionOptions struct {
	Scale  float32 // of q·k
	Window int     // number of keys that a query sees, with its own; 0 is all
}

// An Attention computes softmax(Scale · q·kᵀ)·v from q [size, heads, n·batch] and
// k, v [size, kv heads, n·batch] to [size·heads, n·batch].
type Attention interface {
	Attend(t *Tape, q, k, v *Value, o AttentionOptions) *Value
}

// SelfAttention is attention within a batch of sequences of equal length, with
// gradients.
type SelfAttention struct {
	Batch  int64
	Packed bool // a sequence may hold several samples, which do not see each other
}

// Attend computes the attention of each token to itself and those before it.
func (s SelfAttention) Attend(t *Tape, q, k, v *Value, o AttentionOptions) *Value {
	c, tokens := t.C, q.T.Dim(2)
	q, k, v = t.Sequences(q, s.Batch), t.Sequences(k, s.Batch), t.Sequences(v, s.Batch)
	shape := q.T.Shape()
	operands := AttentionOperands{Q: q.T, K: k.T, V: v.T, Scale: o.Scale, FirstVisible: s.firstVisible(t, o.Window, tokens/s.Batch)}
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

// firstVisible is the first key that each query sees, nil where it sees all before it.
func (s SelfAttention) firstVisible(t *Tape, window int, length int64) *ggml.Tensor {
	if int64(window) >= length {
		window = 0 // it hides nothing
	}
	if window == 0 && !s.Packed {
		return nil
	}
	return t.FirstVisible(window, length, s.Batch)
}
