package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// A LossChunk is the cross-entropy of n tokens whose logits exist at a time.
type LossChunk struct {
	labels, weights   *ggml.Tensor // inputs: I32 [1, n], F32 [1, n]
	labelLogit, top   *ggml.Tensor // F32 [1, 1, n]; I32 [n], the likeliest token
	topLogit, topProb *ggml.Tensor // F32 [1, 1, n]
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
	vocab, n := z.T.Dim(0), z.T.Dim(1)
	l = &LossChunk{
		labels:  c.NewTensor(ggml.I32, 1, n).SetName("labels").SetInput(),
		weights: c.NewTensor(ggml.F32, 1, n).SetName("weights").SetInput(),
	}
	pick := func(z, ids *ggml.Tensor) *ggml.Tensor {
		x := c.GetRows(c.Reshape(z, 1, vocab, n), c.Reshape(ids, 1, n)).SetOutput()
		t.Graph.Expand(x)
		return x
	}
	// What is read of the logits comes first: softmax then takes their memory.
	l.top = c.ArgMax(z.T).SetOutput()
	l.labelLogit, l.topLogit = pick(z.T, l.labels), pick(z.T, l.top)
	p := c.SoftMax(z.T)
	l.topProb = pick(p, l.top)
	if !t.Training() {
		return l, nil
	}
	// ∂(−w·log p_label)/∂logits = w·(p − onehot(label))
	flat := c.Reshape(p, 1, vocab, n)
	less := c.SetRows(flat, c.ScaleBias(c.GetRows(flat, l.labels), 1, -1), l.labels)
	z.grad = c.MulInPlace(c.Reshape(less, vocab, n), l.weights)
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

// Losses appends −log p(label) of each token, in nats: log Σ exp(logit) less the
// label's logit, which stays exact however small p is.
func (l *LossChunk) Losses(losses []float32) ([]float32, error) {
	var columns [3][]float32
	for i, x := range []*ggml.Tensor{l.topLogit, l.topProb, l.labelLogit} {
		values, err := ggml.Read[float32](x)
		if err != nil {
			return nil, err
		}
		columns[i] = values
	}
	for i, top := range columns[0] {
		loss := float64(top) - math.Log(float64(columns[1][i])) - float64(columns[2][i])
		losses = append(losses, float32(loss))
	}
	return losses, nil
}

// Likeliest appends the most probable next token of each token.
func (l *LossChunk) Likeliest(tokens []int32) ([]int32, error) {
	top, err := ggml.Read[int32](l.top)
	return append(tokens, top...), err
}
