package lossgraph_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lossgraph"
)

// The loss of a token is right however unlikely it is: beyond 103 nats its probability is
// 0 in single precision, and from 87 on a denormal.
func TestLossOfUnlikelyTokens(t *testing.T) {
	const length = 16
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	w := m.Weight("output.weight")
	values := need.Value(ggml.Read[float32](w))(t)
	for i := range values {
		values[i] *= 80
	}
	require.NoError(t, ggml.Write(w, values))
	b := llmtest.NewBatch(m.Config().Vocab, length)
	graph := need.Value(lossgraph.New(m, llmtest.NewEngine(t), lossgraph.Options{Length: length, Batch: 2, LogitsChunk: 7}))(t)
	defer graph.Close()
	losses := need.Value(graph.Compute(context.Background(), b))(t)

	largest, between := 0.0, 0
	for s := range 2 {
		for i, row := range llmtest.ExactLogits(t, m, nil, b.Tokens[s*length:(s+1)*length], length) {
			label := row[b.Targets[s*length+i]]
			sum := 0.0
			for _, x := range row {
				sum += math.Exp(x - label) // far below what float64 holds
			}
			want := math.Log(sum)
			require.InDelta(t, want, losses[s*length+i], 1e-5*math.Max(1, want), "token %d", s*length+i)
			largest = math.Max(largest, want)
			if want > 87 && want < 103 {
				between++
			}
		}
	}
	require.Greater(t, largest, 200.)
	require.Positive(t, between)
}
