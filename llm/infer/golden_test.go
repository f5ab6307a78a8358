package infer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/infer"
)

// The logits of one batch and the converted weights equal stock llama.cpp's, for each type of weights.
func TestGoldenLogits(t *testing.T) {
	for _, c := range []struct {
		typ    ggml.Type
		digest string // of the tensors of the stock file, in order
		nmse   float64
		diff   float64
	}{
		{ggml.F32, "381f9898ee5b023d1d1313879f17172bd2de4b203af53e0261f2d58bbdc0aefc", 1e-9, 2e-4},
		{ggml.F16, "4dead03de67b6eb0a477f548e0cd09b4af5aa4221bf089b3c7f837fb4f648457", 1e-6, 0.05},
		{ggml.Q8_0, "0c3298f5bc03285f35f57caad07ff175c15d34c2deb45f04f49c974b393402dd", 1e-4, 1},
		{ggml.Q4_0, "328a6041b016ff909e875827d9023b22a0bd78493a46c60e03e31fbfbc1c5f46", 1e-4, 0.5},
	} {
		t.Run(c.typ.String(), func(t *testing.T) {
			m := llmtest.GoldenModel(t, c.typ)
			h := sha256.New()
			for _, s := range llmtest.Declared(m) {
				w := m.Weight(s.Name)
				raw := make([]byte, w.NumBytes())
				_, err := w.ReadAt(raw, 0)
				require.NoError(t, err)
				h.Write(raw)
			}
			require.Equal(t, c.digest, hex.EncodeToString(h.Sum(nil)))
			got := flat(t, newSequence(t, m, infer.SessionOptions{}), llmtest.GoldenTokens(t))
			requireNear(t, llmtest.GoldenLogits(t, c.typ.String()), got, c.nmse, c.diff)
		})
	}
}

func requireNear(t *testing.T, want, got []float32, nmse, diff float64) {
	t.Helper()
	n, d := refmath.NMSE(got, want), refmath.MaxAbsDiff(got, want)
	t.Logf("NMSE %.2g, largest difference %.2g", n, d)
	require.LessOrEqual(t, n, nmse)
	require.LessOrEqual(t, d, diff)
}

// The logits with an adapter equal stock llama.cpp's, at two scales.
func TestGoldenAdapter(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.F32)
	for _, scale := range []string{"1", "0.5"} {
		t.Run(scale, func(t *testing.T) {
			s := need.Value(strconv.ParseFloat(scale, 32))(t)
			adapters := llmtest.GoldenAdapters(t, float32(s))
			got := flat(t, newSequence(t, m, infer.SessionOptions{Adapters: adapters}), llmtest.GoldenTokens(t))
			requireNear(t, llmtest.GoldenLogits(t, "f32-lora"+scale), got, 1e-9, 2e-4)
		})
	}
}
