package nn

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml"
)

// TokenLosses are the results of a graph for each token.
type TokenLosses struct {
	losses       *ggml.Tensor   // F32 [n]
	crossEntropy *ggml.Tensor   // F32 [n]; only beside a teacher
	likeliest    []*ggml.Tensor // I32, chunk by chunk; only in graphs without gradients
}

// LossOptions describe the loss of a graph.
type LossOptions struct {
	Chunk int64        // tokens whose logits exist at a time
	Into  *ggml.Tensor // its first elements receive the losses; nil: a new tensor
	// Teacher makes the loss a divergence from a teacher; nil: cross-entropy.
	Teacher *TeacherOptions
	// CrossEntropyInto is like Into for the cross-entropy beside a teacher.
	CrossEntropyInto *ggml.Tensor
	// Factors returns factors [1, n] for the gradients of tokens, given the losses of all [n]; nil: none. It needs a head
	// that is not trained, to which gradients flow before the factors are known.
	Factors func(losses *ggml.Tensor) *ggml.Tensor
}

// TeacherOptions describe the loss beside a teacher: its divergence, and a weight of cross-entropy.
type TeacherOptions struct {
	TopK         int64   // labels of the teacher for each token
	Temperature  float32 // divides the logits for the divergence
	Beta         float32 // selects the divergence, see [DivergenceOperands]
	CrossEntropy float32 // weight
}

// Loss computes the loss of x [n_embd, n] chunk by chunk, each with its gradient, so that
// the logits of the whole batch never exist; logits returns a chunk's, [vocab, tokens].
func (t *Tape) Loss(x *Value, o LossOptions, logits func(t *Tape, x *Value) *Value) *TokenLosses {
	l, losses, entropies := &TokenLosses{}, tokenOutput{into: o.Into}, tokenOutput{into: o.CrossEntropyInto}
	for _, r := range chunks(x.T.Dim(1), o.Chunk) {
		part := &Value{T: columns(t.C, x.T, r), needsGrad: x.needsGrad}
		loss, dx := t.at(r).chunkLoss(part, x.T.Dim(1), o.Teacher, l, logits)
		losses.add(t, r, loss.Y)
		if o.Teacher != nil {
			entropies.add(t, r, loss.crossEntropy)
		}
		if dx != nil {
			x.grad = putColumns(t.C, x.grad, dx, x.T, r)
			t.Graph.Expand(x.grad)
		}
	}
	if o.Factors != nil && x.grad != nil {
		x.grad = t.C.Mul(x.grad, o.Factors(losses.joined(t)))
	}
	l.losses = losses.of(t, "losses", x.T.Dim(1))
	if o.Teacher != nil {
		l.crossEntropy = entropies.of(t, "cross-entropy", x.T.Dim(1))
	}
	return l
}

// A tokenOutput is a result of the graph for each token. Each chunk of tokens computes a part of it.
type tokenOutput struct {
	into  *ggml.Tensor // receives the parts; nil: a new tensor
	parts []*ggml.Tensor
}

func (o *tokenOutput) add(t *Tape, r columnRange, part *ggml.Tensor) {
	if o.into != nil {
		t.Graph.Expand(t.C.Copy(part, t.C.View(o.into, []int64{r.to - r.from}, nil, r.from*o.into.Stride(0))))
	}
	o.parts = append(o.parts, part)
}

// joined returns the parts as one.
func (o *tokenOutput) joined(t *Tape) *ggml.Tensor {
	all := o.parts[0]
	for _, part := range o.parts[1:] {
		all = t.C.Concat(all, part, 0)
	}
	return all
}

// of returns the result of all n tokens.
func (o *tokenOutput) of(t *Tape, name string, n int64) *ggml.Tensor {
	if o.into != nil {
		return t.C.View(o.into, []int64{n}, nil, 0)
	}
	all := o.joined(t)
	t.Graph.Expand(all.SetName(name).SetOutput())
	return all
}

// taughtLosses are the losses of a chunk, with the cross-entropy beside a teacher.
type taughtLosses struct {
	Losses
	crossEntropy *ggml.Tensor
}

// chunkLoss runs a chunk forwards and backwards; tokens is the size of the batch.
func (t *Tape) chunkLoss(x *Value, tokens int64, teacher *TeacherOptions, l *TokenLosses, logits func(t *Tape, x *Value) *Value) (loss taughtLosses, dx *ggml.Tensor) {
	c, own := t.C, t.fork()
	z := logits(own, x)
	if !t.Training() {
		likeliest := c.ArgMax(z.T).SetOutput()
		t.Graph.Expand(likeliest)
		l.likeliest = append(l.likeliest, likeliest)
	}
	if teacher != nil {
		loss = t.taughtLoss(z.T, teacher, tokens)
		t.Graph.Expand(loss.crossEntropy) // before a gradient overwrites the logits
	} else {
		loss.Losses = t.crossEntropy(z.T, tokens, t.lossWeights(z.T.Dim(1), tokens))
	}
	t.Graph.Expand(loss.Y)
	if !t.Training() {
		return loss, nil
	}
	z.grad = loss.Grad()
	own.Backward()
	return loss, own.gradient(x)
}

// crossEntropy is the cross-entropy of a chunk's logits [vocab, n].
func (t *Tape) crossEntropy(logits *ggml.Tensor, tokens int64, weights TokenInput) Losses {
	return CrossEntropy.Build(t, CrossEntropyOperands{
		Logits:  logits,
		Labels:  tokenInput(t, "labels", ggml.I32, [2]int64{1, logits.Dim(1)}, tokens, func(f *Feed) []int32 { return f.Targets }),
		Weights: weights,
	})
}

func (t *Tape) lossWeights(n, tokens int64) TokenInput {
	return tokenInput(t, "weights", ggml.F32, [2]int64{1, n}, tokens, func(f *Feed) []float32 { return f.Weights })
}

// taughtLoss is the loss of a chunk's logits [vocab, n] beside a teacher.
func (t *Tape) taughtLoss(logits *ggml.Tensor, o *TeacherOptions, tokens int64) taughtLosses {
	c, n, z := t.C, logits.Dim(1), logits
	if o.Temperature != 1 || o.CrossEntropy != 0 { // gradients may overwrite their logits
		z = c.Scale(logits, 1/o.Temperature)
	}
	weights := t.lossWeights(n, tokens)
	taught := Divergence.Build(t, DivergenceOperands{
		Logits:  z,
		Labels:  tokenInput(t, "teacher's labels", ggml.I32, [2]int64{o.TopK, n}, tokens, func(f *Feed) []int32 { return f.Taught }),
		Probs:   tokenInput(t, "teacher's probabilities", ggml.F32, [2]int64{o.TopK + 1, n}, tokens, func(f *Feed) []float32 { return f.Probs }),
		Weights: weights, Beta: o.Beta,
	})
	grad := func() *ggml.Tensor {
		if o.Temperature == 1 {
			return taught.Grad()
		}
		return c.Scale(taught.Grad(), 1/o.Temperature)
	}
	own := t.crossEntropy(logits, tokens, weights)
	if o.CrossEntropy == 0 {
		return taughtLosses{Losses{taught.Y, grad}, own.Y}
	}
	return taughtLosses{Losses{c.Add(taught.Y, c.Scale(own.Y, o.CrossEntropy)), func() *ggml.Tensor {
		return c.Add(grad(), c.Scale(own.Grad(), o.CrossEntropy))
	}}, own.Y}
}

// tokenInput returns an input of a chunk [k, n] of all tokens.
func tokenInput[T ggml.Element](t *Tape, name string, typ ggml.Type, shape [2]int64, tokens int64, of func(f *Feed) []T) TokenInput {
	first, k := t.column*shape[0], shape[0]
	var own *ggml.Tensor // of this chunk
	return func(shared bool) *ggml.Tensor {
		if !shared {
			if own == nil {
				own = Declare(t.Inputs, fmt.Sprintf("%s from %d", name, t.column), typ, shape[:], func(f *Feed, x []T) { copy(x, of(f)[first:]) })
			}
			return own
		}
		all := t.constant(name, func() *ggml.Tensor { // a copy on the device
			return t.C.Cont(Declare(t.Inputs, name, typ, []int64{k * tokens}, func(f *Feed, x []T) { copy(x, of(f)) }))
		})
		return t.C.View(all, shape[:], nil, first*all.Stride(0))
	}
}

// Losses returns the loss of each token, in nats.
func (l *TokenLosses) Losses() ([]float32, error) { return ggml.Read[float32](l.losses) }

// CrossEntropy returns the cross-entropy of each token beside a teacher, in nats.
func (l *TokenLosses) CrossEntropy() ([]float32, error) { return ggml.Read[float32](l.crossEntropy) }

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
