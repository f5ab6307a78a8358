package infer_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

func encoder(t *testing.T, name string) *model.Model {
	t.Helper()
	m := need.Value(model.Load(llmtest.EncoderFile(t, name, 1), model.LoadOptions{}))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

// pooled returns the scores of texts if the model is a reranker, else their vectors.
func pooled(t *testing.T, s *infer.Session, texts [][]int32) [][]float32 {
	t.Helper()
	var all [][]float32
	var err error
	if _, scores := s.Model().Architecture().Classifier(); scores {
		all, err = s.Score(context.Background(), texts)
	} else {
		all, err = s.Embed(context.Background(), texts, infer.EmbedOptions{})
	}
	require.NoError(t, err)
	return all
}

// Vectors and scores of each kind of model equal stock llama.cpp's, with both op sets, for texts of several lengths in
// one pass and for each text alone.
func TestEncodersAgainstStock(t *testing.T) {
	var kinds []string
	for _, name := range llmtest.Encoders() {
		t.Run(name, func(t *testing.T) {
			m, texts := encoder(t, name), llmtest.EncoderTexts()
			if !m.Architecture().HasLogits() {
				kinds = append(kinds, m.Config().Arch)
			}
			want := llmtest.GoldenVectors(t, name)
			for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
				e := need.Value(device.New(device.Options{Threads: 1, OpSet: ops}))(t)
				defer e.Close()
				s := newSession(t, m, infer.SessionOptions{Engine: e})
				together := pooled(t, s, texts)
				require.Less(t, refmath.NMSE(slices.Concat(together...), refmath.From(want).Data), 1e-8, ops)
				for i, text := range texts {
					alone := pooled(t, s, [][]int32{text})[0]
					// Sums in another order change the input of GELU, which ggml looks up in a table of F16; a score is one number.
					require.Less(t, refmath.NMSE(alone, refmath.From(together[i]).Data), 1e-7, "%s, text %d", ops, i)
				}
				require.Equal(t, 1, s.Free())
			}
		})
	}
	slices.Sort(kinds)
	require.Equal(t, arch.Encoders(), slices.Compact(kinds))
}

// A text longer than Batch is computed as a whole. Calls that a kind of model does not support are errors.
func TestEncoderLimits(t *testing.T) {
	ctx := context.Background()
	m := encoder(t, "bert")
	s := newSession(t, m, infer.SessionOptions{Batch: 8})
	want := llmtest.GoldenVectors(t, "bert")
	require.Less(t, refmath.NMSE(slices.Concat(pooled(t, s, llmtest.EncoderTexts())...), refmath.From(want).Data), 1e-8)
	_, err := s.NewSequence()
	require.ErrorIs(t, err, arch.ErrNoLogits)
	require.EqualError(t, err, "the architecture bert embeds texts and makes no logits: it generates no text; use Session.Embed")
	_, err = s.Score(ctx, [][]int32{{1}})
	require.ErrorContains(t, err, "is not a reranker: it has no classifier (cls.weight or cls.output.weight) to score texts")
	_, err = s.Embed(ctx, [][]int32{make([]int32, m.Config().Context+1)}, infer.EmbedOptions{})
	require.ErrorIs(t, err, infer.ErrContextFull)

	reranker := newSession(t, encoder(t, "bert-reranker"), infer.SessionOptions{})
	_, err = reranker.Embed(ctx, [][]int32{{1}}, infer.EmbedOptions{})
	require.ErrorContains(t, err, "has the pooling 4 (bert.pooling_type), which makes no vectors: for a reranker, use Session.Score; or choose mean, last or cls")
	_, err = reranker.Embed(ctx, [][]int32{{1}}, infer.EmbedOptions{Pooling: infer.PoolCLS})
	require.NoError(t, err)
	_, err = reranker.Score(ctx, [][]int32{{-1}})
	require.ErrorContains(t, err, "text 1: token 0 is -1")
}
