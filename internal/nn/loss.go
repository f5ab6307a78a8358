package nn

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml"
)

// A LossChunk is the cross-entropy of n tokens whose logits exist at a time.
type LossChunk struct {
	losses    *ggml.Tensor // F32 [n]
	likeliest *ggml.Tensor // I32 [n]; nil with gradients, for which nobody asks
}

// CrossEntropy computes the loss of x [n_embd, n] chunk by chunk, each with its
// gradient, so that the logits of the whole batch never exist. It goes through what
// logits makes of a chunk, [vocab, tokens].
func (t *Tape) CrossEntropy(x *Value, size int64, logits func(t *Tape, x *Value) *Value) []*LossChunk {
	var list []*LossChunk
	for _, r := range chunks(x.T.Dim(1), size) {
		part := &Value{T: columns(t.C, x.T, r), needsGrad: x.needsGrad}
		chunk, dx := t.at(r).chunkLoss(part, logits)
		list = append(list, chunk)
		if dx != nil {
			x.grad = putColumns(t.C, x.grad, dx, x.T, r)
			t.Graph.Expand(x.grad)
		}
	}
	return list
}

// chunkLoss runs the chunk back before the next one starts.
func (t *Tape) chunkLoss(x *Value, logits func(t *Tape, x *Value) *Value) (*LossChunk, *ggml.Tensor) {
	c, own := t.C, t.fork()
	z := logits(own, x)
	n := z.T.Dim(1)
	first, l := t.column, &LossChunk{}
	labels := Declare(t.Inputs, fmt.Sprintf("labels from %d", first), ggml.I32, []int64{1, n}, func(f *Feed, x []int32) { copy(x, f.Targets[first:]) })
	if !t.Training() {
		l.likeliest = c.ArgMax(z.T).SetOutput()
		t.Graph.Expand(l.likeliest)
	}
	losses, grad := t.Lowering.CrossEntropy(c, z.T, labels)
	l.losses = losses.SetName("losses").SetOutput()
	t.Graph.Expand(l.losses)
	if !t.Training() {
		return l, nil
	}
	z.grad = grad(Declare(t.Inputs, fmt.Sprintf("weights from %d", first), ggml.F32, []int64{1, n}, func(f *Feed, x []float32) { copy(x, f.Weights[first:]) }))
	own.Backward()
	return l, own.gradient(x)
}

// Losses appends −log p(label) of each token, in nats.
func (l *LossChunk) Losses(losses []float32) ([]float32, error) {
	values, err := ggml.Read[float32](l.losses)
	return append(losses, values...), err
}

// Likeliest appends the most probable next token of each token, in a graph without
// gradients.
func (l *LossChunk) Likeliest(tokens []int32) ([]int32, error) {
	if l.likeliest == nil {
		return nil, errors.New("a graph with gradients has no likeliest tokens")
	}
	values, err := ggml.Read[int32](l.likeliest)
	return append(tokens, values...), err
}
