package main

import (
	"context"

	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

func newSession(m *model.Model, e *device.Engine, sequences int, o inference) *infer.Session {
	return must(infer.NewSession(m, infer.SessionOptions{
		Sequences: sequences, Context: contextLength, CacheType: o.cache, Adapters: o.adapters, Engine: e,
	}))
}

type sequence struct {
	*infer.Sequence
	session *infer.Session
}

func newSequence(m *model.Model, e *device.Engine, o inference) sequence {
	s := newSession(m, e, 1, o)
	return sequence{must(s.NewSequence()), s}
}

func (s sequence) all(tokens []int32) [][]float32 {
	return must(s.DecodeAll(context.Background(), tokens))
}

func (s sequence) next(tokens []int32) []float32 { return must(s.Decode(context.Background(), tokens)) }

func (s sequence) rewind(n int) { must(s.Rewind(n)) }

func (s sequence) close() { check(s.session.Close()) }

type batch struct {
	*infer.Session
	sequences []*infer.Sequence
}

func newBatch(m *model.Model, e *device.Engine, n int, o inference) *batch {
	return &batch{Session: newSession(m, e, n, o)}
}

func (b *batch) start(tokens []int32) []float32 {
	s := must(b.NewSequence())
	logits, _, err := s.Prefill(context.Background(), tokens)
	check(err)
	b.sequences = append(b.sequences, s)
	return logits
}

func (b *batch) step(tokens []int32) [][]float32 {
	var next []infer.StepInput
	for i, s := range b.sequences {
		next = append(next, infer.StepInput{Sequence: s, Token: tokens[i]})
	}
	check(b.Step(context.Background(), next))
	logits := make([][]float32, len(next))
	for i := range next {
		logits[i] = next[i].Logits
	}
	return logits
}

func (b *batch) end(i int) {
	check(b.sequences[i].Close())
	b.sequences = append(b.sequences[:i], b.sequences[i+1:]...)
}

func (b *batch) close() { check(b.Close()) }
