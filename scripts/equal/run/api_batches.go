//go:build batches

package main

import (
	"context"

	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// The API of commits in which a session has one sequence, and a batch several.

func options(e *device.Engine, o inference) infer.SessionOptions {
	return infer.SessionOptions{Context: contextLength, CacheType: o.cache, Adapters: o.adapters, Engine: e}
}

type sequence struct{ *infer.Session }

func newSequence(m *model.Model, e *device.Engine, o inference) sequence {
	return sequence{must(infer.NewSession(m, options(e, o)))}
}

func (s sequence) all(tokens []int32) [][]float32 {
	return must(s.DecodeAll(context.Background(), tokens))
}

func (s sequence) next(tokens []int32) []float32 { return must(s.Decode(context.Background(), tokens)) }

func (s sequence) rewind(n int) { check(s.Truncate(n)) }

func (s sequence) close() { check(s.Close()) }

type batch struct {
	*infer.Batch
	sequences []*infer.Sequence
}

func newBatch(m *model.Model, e *device.Engine, n int, o inference) *batch {
	return &batch{Batch: must(infer.NewBatch(m, n, options(e, o)))}
}

func (b *batch) start(tokens []int32) []float32 {
	s, logits, err := b.Start(context.Background(), tokens)
	check(err)
	b.sequences = append(b.sequences, s)
	return logits
}

func (b *batch) step(tokens []int32) [][]float32 {
	var next []infer.StepInput
	for i, s := range b.sequences {
		next = append(next, infer.StepInput{Sequence: s, Token: tokens[i]})
	}
	return must(b.Step(context.Background(), next))
}

func (b *batch) end(i int) {
	check(b.sequences[i].Close())
	b.sequences = append(b.sequences[:i], b.sequences[i+1:]...)
}

func (b *batch) close() { check(b.Close()) }
