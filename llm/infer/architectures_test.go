package infer_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// All architectures, with adapters on every matrix, agree with the float64 model in
// prefill, token by token, and as second sequence of a batch: with windows shorter than
// the sequence, and beyond the contexts from which YaRN, a temperature and factors of
// RoPE reach out.
func TestArchitecturesAgainstReference(t *testing.T) {
	require.Equal(t, model.Architectures(), llmtest.Architectures())
	const length = llmtest.LongContext + 23
	for _, arch := range llmtest.Architectures() {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			m := llmtest.ArchModel(t, arch, ggml.F32)
			s := llmtest.NewLoRASetup(t, m, 3, 0.75)
			s.Ref.LongRoPE, s.Ref.F16GELU = true, true
			tokens := llmtest.RandomTokens(5, length, m.Vocab)
			want, err := s.Ref.Logits(tokens)
			require.NoError(t, err)
			o := infer.SessionOptions{Adapters: s.Adapters, Batch: 16, Context: length + 5}

			rows, err := newSession(t, m, o).DecodeAll(context.Background(), tokens)
			require.NoError(t, err)
			requireLogits(t, m, rows, want)

			session := newSession(t, m, o)
			var steps [][]float32
			for _, token := range tokens {
				steps = append(steps, decode(t, session, token))
			}
			requireLogits(t, m, steps, want)
			requireLogits(t, m, secondOfBatch(t, m, o, tokens), want[length/2-1:])
		})
	}
}

// requireLogits demands those of the float64 model. Where ggml looks GELU up in a table
// of F16, an input may be rounded to another number than in float64.
func requireLogits(t *testing.T, m *model.Model, got [][]float32, want [][]float64) {
	t.Helper()
	bound := 1e-11
	if m.Arch == "gemma3" {
		bound = 1e-8
	}
	require.Less(t, refmath.NMSE(slices.Concat(got...), slices.Concat(want...)), bound)
}

// secondOfBatch gives the logits from the middle of a sequence on, beside another one
// that is longer.
func secondOfBatch(t *testing.T, m *model.Model, o infer.SessionOptions, tokens []int32) [][]float32 {
	t.Helper()
	b := newBatch(t, m, 2, o)
	first, _, err := b.Start(context.Background(), llmtest.RandomTokens(6, len(tokens)/2+3, m.Vocab))
	require.NoError(t, err)
	second, logits, err := b.Start(context.Background(), tokens[:len(tokens)/2])
	require.NoError(t, err)
	rows := [][]float32{logits}
	for _, token := range tokens[len(tokens)/2:] {
		next, err := b.Step(context.Background(), []infer.StepInput{{Sequence: first, Token: 1}, {Sequence: second, Token: token}})
		require.NoError(t, err)
		rows = append(rows, next[1])
	}
	return rows
}

// A short context has the RoPE factors for these.
func TestShortContext(t *testing.T) {
	m := llmtest.ArchModel(t, "phi3", ggml.F32)
	tokens := llmtest.RandomTokens(5, 10, m.Vocab)
	for _, context := range []int{llmtest.LongContext - 1, llmtest.LongContext} {
		ref := llmtest.Reference(t, m)
		ref.LongRoPE = context == llmtest.LongContext
		want, err := ref.Logits(tokens)
		require.NoError(t, err)
		got := decode(t, newSession(t, m, infer.SessionOptions{Context: context}), tokens...)
		require.Less(t, refmath.NMSE(got, want[9]), 1e-11)
	}
}
