package infer_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// All architectures, with adapters on every matrix, agree with their graph in float64 in
// prefill, token by token, and as second sequence of a session: with windows shorter than
// the sequence, and beyond the contexts from which YaRN, a temperature and factors of
// RoPE reach out. Repacked matrices of one input are multiplied in one op.
func TestArchitecturesAgainstReference(t *testing.T) {
	require.Equal(t, arch.Architectures(), llmtest.Architectures())
	const length = llmtest.LongContext + 23
	const roundedInputs = 3e-3 // to 8 bits
	for _, arch := range llmtest.Architectures() {
		for _, c := range []struct {
			typ    ggml.Type
			repack bool
			nmse   float64
		}{
			{ggml.F32, false, 1e-11},
			{ggml.Q8_0, false, roundedInputs}, {ggml.Q8_0, true, roundedInputs},
		} {
			if llmtest.LooksUpGELU(arch) { // GELU's table takes an input in F16, which may be another than in float64
				c.nmse = max(c.nmse, 1e-8)
			}
			t.Run(fmt.Sprintf("%s %v repack %v", arch, c.typ, c.repack), func(t *testing.T) {
				t.Parallel()
				m, err := model.Load(llmtest.ArchFile(t, arch, c.typ), model.LoadOptions{Repack: c.repack})
				require.NoError(t, err)
				t.Cleanup(func() { m.Close() })
				if m.Config().Experts > 0 && c.typ != ggml.F32 { // rounded inputs may choose other experts
					c.nmse = 10 * roundedInputs
				}
				s := llmtest.NewLoRASetup(t, m, 3, 0.75)
				tokens := llmtest.RandomTokens(5, length, m.Config().Vocab)
				want := llmtest.ExactLogits(t, m, s.Adapters, tokens, length+5)
				o := infer.SessionOptions{Adapters: s.Adapters, Batch: 16, Context: length + 5}

				rows, err := newSequence(t, m, o).DecodeAll(context.Background(), tokens)
				require.NoError(t, err)
				requireLogits(t, rows, want, c.nmse)
				if !m.Architecture().IsCausal() {
					return // a sequence is computed as a whole
				}

				session := newSequence(t, m, o)
				var steps [][]float32
				for _, token := range tokens {
					steps = append(steps, decode(t, session, token))
				}
				requireLogits(t, steps, want, c.nmse)
				requireLogits(t, asSecond(t, m, o, tokens), want[length/2-1:], c.nmse)
			})
		}
	}
}

// The logits of each architecture are stock llama.cpp's, and so is its graph in float64: what keys and weights mean is
// not ours to say.
func TestArchitecturesAgainstStock(t *testing.T) {
	for _, arch := range llmtest.StockArchitectures() {
		m, err := model.Load(llmtest.StockArchFile(t, arch), model.LoadOptions{})
		require.NoError(t, err)
		defer m.Close()
		tokens := llmtest.ArchTokens()
		bound := 1e-11
		if llmtest.LooksUpGELU(arch) { // the table again
			bound = 1e-7
		}
		want := refmath.From(llmtest.GoldenLogits(t, "arch-"+arch)).Data
		exact := llmtest.ExactLogits(t, m, nil, tokens, len(tokens))
		require.Less(t, refmath.NMSE(slices.Concat(exact...), want), bound, arch)
		require.Less(t, refmath.NMSE(flat(t, newSequence(t, m, infer.SessionOptions{Context: len(tokens)}), tokens), want), bound, arch)
	}
}

func requireLogits(t *testing.T, got [][]float32, want [][]float64, nmse float64) {
	t.Helper()
	require.Less(t, refmath.NMSE(slices.Concat(got...), slices.Concat(want...)), nmse)
}

// asSecond gives the logits from the middle of a sequence on, beside another one
// that is longer.
func asSecond(t *testing.T, m *model.Model, o infer.SessionOptions, tokens []int32) [][]float32 {
	t.Helper()
	o.Sequences = 2
	s := newSession(t, m, o)
	first, _ := start(t, s, llmtest.RandomTokens(6, len(tokens)/2+3, m.Config().Vocab)...)
	second, logits := start(t, s, tokens[:len(tokens)/2]...)
	rows := [][]float32{logits}
	for _, token := range tokens[len(tokens)/2:] {
		next := []infer.StepInput{{Sequence: first, Token: 1}, {Sequence: second, Token: token}}
		require.NoError(t, s.Step(context.Background(), next))
		rows = append(rows, next[1].Logits)
	}
	return rows
}

// A short context has the RoPE factors for these.
func TestShortContext(t *testing.T) {
	m := llmtest.ArchModel(t, "phi3", ggml.F32)
	tokens := llmtest.RandomTokens(5, 10, m.Config().Vocab)
	for _, context := range []int{llmtest.LongContext - 1, llmtest.LongContext} {
		want := llmtest.ExactLogits(t, m, nil, tokens, context)
		got := decode(t, newSequence(t, m, infer.SessionOptions{Context: context}), tokens...)
		require.Less(t, refmath.NMSE(got, want[9]), 1e-11)
	}
}
