package nn

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml"
)

// TokenLosses are the results of a graph for each token.
type TokenLosses struct {
	losses    *ggml.Tensor   // F32 [n]
	likeliest []*ggml.Tensor // I32, chunk by chunk; only in graphs without gradients
}

// LossOptions describe the cross-entropy of a graph.
type LossOptions struct {
	Chunk   int64        // tokens whose logits exist at a time
	Targets int64        // of each token, with their probabilities; 0: one, whose probability is 1
	Into    *ggml.Tensor // its first elements receive the losses; nil: a new tensor
}

// CrossEntropy computes the loss of x [n_embd, n] chunk by chunk, each with its gradient, so that
// the logits of the whole batch never exist; logits returns a chunk's, [vocab, tokens].
func (t *Tape) CrossEntropy(x *Value, o LossOptions, logits func(t *Tape, x *Value) *Value) *TokenLosses {
	l, into := &TokenLosses{}, o.Into
	if into != nil {
		l.losses = t.C.View(into, []int64{x.T.Dim(1)}, nil, 0)
	}
	var parts []*ggml.Tensor
	for _, r := range chunks(x.T.Dim(1), o.Chunk) {
		part := &Value{T: columns(t.C, x.T, r), needsGrad: x.needsGrad}
		losses, dx := t.at(r).chunkLoss(part, x.T.Dim(1), o.Targets, l, logits)
		if into != nil {
			t.Graph.Expand(t.C.Copy(losses, t.C.View(into, []int64{r.to - r.from}, nil, r.from*into.Stride(0))))
		}
		parts = append(parts, losses)
		if dx != nil {
			x.grad = putColumns(t.C, x.grad, dx, x.T, r)
			t.Graph.Expand(x.grad)
		}
	}
	if into == nil {
		l.losses = parts[0]
		for _, part := range parts[1:] {
			l.losses = t.C.Concat(l.losses, part, 0)
		}
		t.Graph.Expand(l.losses.SetName("losses").SetOutput())
	}
	return l
}

// chunkLoss runs a chunk forwards and backwards; tokens is the size of the batch.
func (t *Tape) chunkLoss(x *Value, tokens, targets int64, l *TokenLosses, logits func(t *Tape, x *Value) *Value) (losses, dx *ggml.Tensor) {
	c, own := t.C, t.fork()
	z := logits(own, x)
	if !t.Training() {
		likeliest := c.ArgMax(z.T).SetOutput()
		t.Graph.Expand(likeliest)
		l.likeliest = append(l.likeliest, likeliest)
	}
	loss := CrossEntropy.Build(t, t.withTargets(z.T, targets, tokens))
	t.Graph.Expand(loss.Y)
	if !t.Training() {
		return loss.Y, nil
	}
	z.grad = loss.Grad()
	own.Backward()
	return loss.Y, own.gradient(x)
}

// withTargets returns the logits [vocab, n] of a chunk with the labels of its tokens among all, and the weights of
// their losses.
func (t *Tape) withTargets(logits *ggml.Tensor, targets, tokens int64) CrossEntropyOperands {
	n, k := logits.Dim(1), max(1, targets)
	e := CrossEntropyOperands{
		Logits:  logits,
		Labels:  tokenInput(t, "labels", ggml.I32, [2]int64{k, n}, tokens, func(f *Feed) []int32 { return f.Targets }),
		Weights: tokenInput(t, "weights", ggml.F32, [2]int64{1, n}, tokens, func(f *Feed) []float32 { return f.Weights }),
	}
	if targets > 0 {
		e.Probs = tokenInput(t, "label probabilities", ggml.F32, [2]int64{k, n}, tokens, func(f *Feed) []float32 { return f.Probs })
	}
	return e
}

// tokenInput returns an input of a chunk [k, n] of all tokens.
func tokenInput[T ggml.Element](t *Tape, name string, typ ggml.Type, shape [2]int64, tokens int64, of func(f *Feed) []T) TokenInput {
	first, k := t.column*shape[0], shape[0]
	return func(shared bool) *ggml.Tensor {
		if !shared {
			return Declare(t.Inputs, fmt.Sprintf("%s from %d", name, t.column), typ, shape[:], func(f *Feed, x []T) { copy(x, of(f)[first:]) })
		}
		all := t.constant(name, func() *ggml.Tensor { // a copy on the device
			return t.C.Cont(Declare(t.Inputs, name, typ, []int64{k * tokens}, func(f *Feed, x []T) { copy(x, of(f)) }))
		})
		return t.C.View(all, shape[:], nil, first*all.Stride(0))
	}
}

// Losses returns −log p(label) of each token, in nats.
func (l *TokenLosses) Losses() ([]float32, error) { return ggml.Read[float32](l.losses) }

// Likeliest returns the most probable next token of each token, in a graph without gradients.
func (l *TokenLosses) Likeliest() ([]int32, error) {
	if len(l.likeliest) == 0 {
		return nil, errors.New("a graph with gradients has no likeliest tokens")
	}
	var tokens []int32
	for _, part := range l.likeliest {
		values, err := ggml.Read[int32](part)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, values...)
	}
	return tokens, nil
}
