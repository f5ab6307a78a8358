package infer

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// A Pooling makes one vector of the hidden states of a text. Poolings have the names of
// llama.cpp.
type Pooling string

// The poolings.
const (
	PoolByModel Pooling = ""     // as in the model's file; the mean if it names none
	PoolMean    Pooling = "mean" // of all tokens
	PoolLast    Pooling = "last" // the last token, which sees all others
	PoolCLS     Pooling = "cls"  // the first token, which in causal models sees no other
)

// EmbedOptions are the settings of [Session.Embed].
type EmbedOptions struct {
	Pooling   Pooling
	Normalize bool // scale each vector to length 1, so that dot products are cosines
	// Adapters are the texts' adapters; nil are the session's own.
	Adapters *Adapters
}

// Embed returns a vector [n_embd] for each text, given in tokens: its hidden states after the output
// norm, pooled, and projected if the model has matrices for that, possibly to another size. Adapters
// take part; the output matrix is not computed.
//
// Texts of a causal model use free slots of [SessionOptions.Sequences] and leave other sequences
// unchanged. Short texts are computed at once in adjacent free slots; without a free slot Embed returns
// [ErrSessionFull]. Texts of other models need no slot. Up to [SessionOptions.Batch] tokens are
// computed at once. [Session.NewEncoding] is for texts that share the session with others' passes.
func (s *Session) Embed(ctx context.Context, texts [][]int32, o EmbedOptions) ([][]float32, error) {
	e, err := s.NewEncoding(texts, o)
	if err != nil {
		return nil, err
	}
	return e.run(ctx)
}

// A TextError is an error of one of several texts, at an index.
type TextError struct {
	Index int
	Err   error
}

// Error counts the texts from 1 on.
func (e *TextError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("text %d: %v", e.Index+1, e.Err)
}

// Unwrap returns the error of the text.
func (e *TextError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// pooling returns the pooling of the options, or the model's.
func (s *Session) pooling(p Pooling) (Pooling, error) {
	switch p {
	case PoolMean, PoolLast, PoolCLS:
		return p, nil
	case PoolByModel:
		return s.modelPooling()
	}
	return "", fmt.Errorf("there is no pooling %q; use mean, last or cls", p)
}

// modelPooling returns the pooling in the model's file.
func (s *Session) modelPooling() (Pooling, error) {
	m := s.d.m
	key := m.Config().Arch + ".pooling_type"
	if m.GGUF() == nil { // made in memory
		return PoolMean, nil
	}
	value, ok := m.GGUF().Value(key)
	if !ok {
		return PoolMean, nil
	}
	switch fmt.Sprint(value) { // of llama.cpp's enumeration
	case "0", "1": // "0" means none
		return PoolMean, nil
	case "2":
		return PoolCLS, nil
	case "3":
		return PoolLast, nil
	}
	return "", fmt.Errorf("%s has the pooling %v (%s), which makes no vectors: for a reranker, use Session.Score; or choose mean, last or cls", m.Path, value, key)
}

// freeSlots returns the longest run of adjacent free slots.
func (s *Session) freeSlots() (first, n int) {
	for from := 0; from < len(s.slots); from++ {
		to := from
		for to < len(s.slots) && s.slots[to] == nil {
			to++
		}
		if to-from > n {
			first, n = from, to-from
		}
		from = to
	}
	return first, n
}

// A pooledText is a text with the sum of the hidden states of a range of its tokens.
type pooledText struct {
	tokens   []int32
	from, to int
	sum      []float64
}

func newPooledText(tokens []int32, p Pooling, embd int) *pooledText {
	t := &pooledText{tokens: tokens, to: len(tokens), sum: make([]float64, embd)}
	switch p {
	case PoolLast:
		t.from = t.to - 1
	case PoolCLS:
		t.to = 1
	}
	return t
}

// add adds the hidden states of tokens from index at on.
func (t *pooledText) add(at int, states []float32) {
	for x := range slices.Chunk(states, len(t.sum)) {
		if at >= t.from && at < t.to {
			for i := range x {
				t.sum[i] += float64(x[i])
			}
		}
		at++
	}
}

// mean returns the mean of the tokens' hidden states.
func (t *pooledText) mean() []float64 {
	for i := range t.sum {
		t.sum[i] /= float64(t.to - t.from)
	}
	return t.sum
}

// vector returns x in F32, of length 1 if it is normalised.
func vector(x []float64, normalize bool) ([]float32, error) {
	factor := 1.0
	if normalize {
		square := 0.0
		for _, x := range x {
			square += x * x
		}
		factor = 1 / max(math.Sqrt(square), math.SmallestNonzeroFloat64)
	}
	v := make([]float32, len(x))
	for i, x := range x {
		if v[i] = float32(x * factor); v[i]-v[i] != 0 {
			return nil, fmt.Errorf("its embedding contains %v: the weights or adapters of the model may be damaged", v[i])
		}
	}
	return v, nil
}
