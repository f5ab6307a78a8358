package device_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/train"
)

// wholeAttention computes all scores at once, forward and for gradients. It uses only ops that devices support.
type wholeAttention struct{ forward, back int }

// takes reports whether attention is plain causal with a key head for each query head.
func (*wholeAttention) takes(_ *nn.Tape, a nn.AttentionOperands) bool {
	return a.FirstVisible == nil && !a.Bidirectional && a.Scores == nn.ScoreOptions{} && a.Q.Dim(1) == a.K.Dim(1)
}

func (w *wholeAttention) build(t *nn.Tape, a nn.AttentionOperands) nn.Result[nn.AttentionGrads] {
	c := t.C
	w.forward++
	permuted := func(x *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Permute(x, [4]int{0, 2, 1, 3})) } // swaps heads and tokens
	transposed := func(x *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Transpose(x)) }
	q, k, v := permuted(a.Q), permuted(a.K), permuted(a.V)
	index := c.Arange(0, float32(a.Q.Dim(2)), 1)
	later := c.Step(c.Sub(c.Repeat(index, a.Q.Dim(2), a.Q.Dim(2)), c.Reshape(index, 1, a.Q.Dim(2)))) // [keys, queries]
	p := c.SoftMaxExt(c.MulMat(k, q), ggml.SoftMaxOptions{Mask: c.Scale(later, -1e30), Scale: a.Scale})
	return nn.Result[nn.AttentionGrads]{Y: permuted(c.MulMat(transposed(v), p)), Grad: func(dy *ggml.Tensor) nn.AttentionGrads {
		w.back++
		d := permuted(dy)
		dp := c.MulMat(v, d)
		ds := c.Scale(c.Mul(p, c.Sub(dp, c.SumRows(c.Mul(p, dp)))), a.Scale)
		return nn.AttentionGrads{
			Q: permuted(c.MulMat(transposed(k), ds)), K: permuted(c.MulMat(transposed(q), transposed(ds))),
			V: permuted(c.MulMat(transposed(d), transposed(p))),
		}
	}}
}

// A third op set, for a device that uses neither the CPU's nor stock's, replaces attention if its kernel accepts the
// operands: results equal the CPU's, and engines query the op set.
func TestThirdOpSet(t *testing.T) {
	d, whole := remote(t), &wholeAttention{}
	device.AddOpSet(t, d, nn.Attention.When(whole.takes, whole.build))
	l := splits(d)["first layer"]
	for name, taken := range map[string]bool{"cogvlm": true, "llama": false} { // llama's query heads share keys
		t.Run(name, func(t *testing.T) {
			*whole = wholeAttention{}
			m, e := llmtest.ArchModel(t, name, ggml.F32), newEngine(t, device.Options{Layout: l})
			require.False(t, e.TakesCopies())
			require.False(t, e.ScalesLoss())
			for _, o := range []lossgraph.Options{{Length: 24}, {Length: 24, Checkpoint: true}} {
				wantLoss, want := gradients(t, m, newEngine(t, device.Options{}), o)
				loss, got := gradients(t, loadOn(t, m, l), e, o)
				require.InEpsilon(t, wantLoss, loss, 1e-6)
				requireSameGradients(t, want, got, 1e-8)
			}
			require.Equal(t, taken, whole.back > 0)
			require.Equal(t, taken, whole.forward > whole.back)
			run(t, newTrainer(t, loadOn(t, m, l), e, train.CheckpointingOn))
		})
	}
	e := newEngine(t, device.Options{Layout: l, OpSet: device.Stock})
	require.True(t, e.TakesCopies() && e.ScalesLoss(), "stock's ops are those of any device")
}
