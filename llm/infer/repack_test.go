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
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// A model with repacked matrices is as near to the exact logits as without, and can
// still be trained, read and saved.
func TestRepack(t *testing.T) {
	if testing.Short() {
		t.Skip("loads 24 models")
	}
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K, ggml.Q6_K} {
		for _, k := range []struct {
			tied      bool
			sequences int
		}{{false, 1}, {true, 1}, {false, 5}, {true, 5}} {
			t.Run(fmt.Sprintf("%v/%d", typ, k.sequences), func(t *testing.T) {
				m := llmtest.TinyModel(t, llmtest.LargeBlockConfig(k.tied), typ)
				repacked, err := model.Load(m.Path, model.LoadOptions{Repack: true, Sequences: k.sequences})
				require.NoError(t, err)
				defer repacked.Close()
				tokens := llmtest.RandomTokens(1, 40, m.Config().Vocab)
				want := flat(t, newSequence(t, m, infer.SessionOptions{}), tokens)
				got := flat(t, newSequence(t, repacked, infer.SessionOptions{}), tokens)
				// GEMM rounds x less.
				byGEMM := typ.IsQuantized() && repacked.Fused("blk.0.ffn_up.weight").RowMajor && model.GEMMIsFast()
				if !byGEMM && typ.BlockSize() < 256 {
					require.Less(t, refmath.NMSE(got, want), 1e-3)
				}
				rows, err := llmtest.Reference(t, m).Logits(tokens)
				require.NoError(t, err)
				exact := slices.Concat(rows...)
				// Sums in F32 differ by their order, so up to that they are alike.
				const f32Sums = 1e-11
				require.LessOrEqual(t, refmath.NMSE(got, exact), max(1.1*refmath.NMSE(want, exact), f32Sums))
				if byGEMM {
					require.Less(t, refmath.NMSE(got, exact), refmath.NMSE(want, exact))
				}
				s := newSequence(t, repacked, infer.SessionOptions{})
				var last []float32
				for _, token := range tokens {
					last = decode(t, s, token)
				}
				require.Less(t, refmath.NMSE(last, want[len(want)-m.Config().Vocab:]), 1e-3)

				values, err := repacked.Weight("blk.0.ffn_up.weight").Float32s()
				require.NoError(t, err)
				original, err := m.Weight("blk.0.ffn_up.weight").Float32s()
				require.NoError(t, err)
				require.Equal(t, original, values)
				batch, _ := llmtest.NewBatch(m.Config().Vocab, 8)
				var losses [2][]float32
				for i, m := range []*model.Model{m, repacked} {
					l, err := m.NewLossGraph(llmtest.NewEngine(t), model.TrainGraphOptions{Length: 8, Batch: 2})
					require.NoError(t, err)
					defer l.Close()
					losses[i], err = l.Compute(context.Background(), batch)
					require.NoError(t, err)
				}
				require.Equal(t, losses[0], losses[1])
			})
		}
	}
}
