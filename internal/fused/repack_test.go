package fused_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/fused"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

func newSequence(t *testing.T, m *model.Model) *infer.Sequence {
	t.Helper()
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Threads: 2}))(t)
	t.Cleanup(func() { s.Close() })
	return need.Value(s.NewSequence())(t)
}

// prefill returns the logits of all tokens, concatenated.
func prefill(t *testing.T, m *model.Model, tokens []int32) []float32 {
	t.Helper()
	rows := need.Value(newSequence(t, m).DecodeAll(t.Context(), tokens))(t)
	return slices.Concat(rows...)
}

// A model with repacked matrices is as close to the exact logits as without, and can still be
// trained, read and saved.
func TestRepack(t *testing.T) {
	need.Time(t, "loads 24 models")
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K, ggml.Q6_K} {
		for _, k := range []struct {
			tied      bool
			sequences int
		}{{false, 1}, {true, 1}, {false, 5}, {true, 5}} {
			t.Run(fmt.Sprintf("%v/%d", typ, k.sequences), func(t *testing.T) {
				m := llmtest.TinyModel(t, llmtest.LargeBlockConfig(k.tied), typ)
				repacked := need.Value(model.Load(m.Path, model.LoadOptions{Repack: true, Sequences: k.sequences}))(t)
				defer repacked.Close()
				tokens := llmtest.RandomTokens(1, 64, m.Config().Vocab)
				want, got := prefill(t, m, tokens), prefill(t, repacked, tokens)
				// GEMM rounds x less.
				byGEMM := typ.IsQuantized() && fused.IsRowMajor(repacked.RepackedMatrices(), "blk.0.ffn_up.weight") && fused.GEMMIsFast()
				if !byGEMM && typ.BlockSize() < 256 {
					require.Less(t, refmath.NMSE(got, want), 1e-3)
				}
				exact := slices.Concat(llmtest.ExactLogits(t, m, nil, tokens, m.Config().Context)...)
				// Sums in F32 differ by their order, so up to that they are alike.
				const f32Sums = 1e-11
				require.LessOrEqual(t, refmath.NMSE(got, exact), max(1.1*refmath.NMSE(want, exact), f32Sums))
				if byGEMM {
					require.Less(t, refmath.NMSE(got, exact), refmath.NMSE(want, exact))
				}
				s := newSequence(t, repacked)
				var last []float32
				for _, token := range tokens {
					last = need.Value(s.Decode(t.Context(), []int32{token}))(t)
				}
				require.Less(t, refmath.NMSE(last, want[len(want)-m.Config().Vocab:]), 1e-3)

				values := need.Value(repacked.Weight("blk.0.ffn_up.weight").Float32s())(t)
				original := need.Value(m.Weight("blk.0.ffn_up.weight").Float32s())(t)
				require.Equal(t, original, values)
				batch := llmtest.NewBatch(m.Config().Vocab, 8)
				var losses [2][]float32
				for i, m := range []*model.Model{m, repacked} {
					l := need.Value(lossgraph.New(m, llmtest.NewEngine(t), lossgraph.Options{Length: 8, Batch: 2}))(t)
					defer l.Close()
					losses[i] = need.Value(l.Compute(context.Background(), batch))(t)
				}
				require.Equal(t, losses[0], losses[1])
			})
		}
	}
}
