package nn

import (
	"errors"

	"github.com/goggml/ggml"
)

// A LossChunk is the cross-entropy of n tokens whose logits exist at a time.
type LossChunk struct {
	labels, weights *ggml.Tensor // inputs: I32 [1, n], F32 [1, n]
	losses          *ggml.Tensor // F32 [n]
	likeliest       *ggml.Tensor // I32 [n]; nil with gradients, for which nobody asks
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
func (t *Tape) chunkLoss(x *Value, logits func(t *Tape, x *Value) *Value) (l *LossChunk, dx *ggml.Tensor) {
	c, own := t.C, t.fork()
	z := logits(own, x)
	n := z.T.Dim(1)
	l = &LossChunk{
		labels:  c.NewTensor(ggml.I32, 1, n).SetName("labels").SetInput(),
		weights: c.NewTensor(ggml.F32, 1, n).SetName("weights").SetInput(),
	}
	if !t.Training() {
		l.likeliest = c.ArgMax(z.T).SetOutput()
		t.Graph.Expand(l.likeliest)
	}
	losses, grad := t.Lowering.CrossEntropy(c, z.T, l.labels)
	l.losses = losses.SetName("losses").SetOutput()
	t.Graph.Expand(l.losses)
	if !t.Training() {
		return l, nil
	}
	z.grad = grad(l.weights)
	own.Backward()
	return l, own.gradient(x)
}

// Tokens is n.
func (l *LossChunk) Tokens() int { return int(l.labels.Dim(1)) }

// Write fills the inputs: the label of each token and its weight in the gradient.
func (l *LossChunk) Write(labels []int32, weights []float32) error {
	if err := ggml.Write(l.labels, labels); err != nil {
		return err
	}
	return WriteUsed(l.weights, weights) // without gradients nothing reads them
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
