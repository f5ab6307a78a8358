package lossgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// A model of text that hides tokens of images learns from the others as in float64, and the hidden rows of its output matrix
// have no gradient.
func TestImageTokens(t *testing.T) {
	const first, end = 4, 8196
	m := need.Value(model.Load(llmtest.StockArchFile(t, "chameleon"), model.LoadOptions{}))(t)
	defer m.Close()
	batch := llmtest.NewBatch(2*first, archLength)
	for _, ids := range [][]int32{batch.Tokens, batch.Targets} {
		for i, id := range ids {
			if id >= first {
				ids[i] = id - first + end
			}
		}
	}
	o := lossgraph.Options{Length: archLength}
	requireWeightGradientsOf(t, m, batch, o)
	got := newLossSum(t, m, device.Kernels)
	got.compute(batch, o)
	grads, embd := readValues(t, got.grads[m.Weight("output.weight")]), m.Config().Embd
	for id := range m.Config().Vocab {
		row := grads[id*embd : (id+1)*embd]
		if zero := make([]float32, embd); id >= first && id < end {
			require.Equal(t, zero, row, id)
		} else {
			require.NotEqual(t, zero, row, id)
		}
	}

	batch.Targets[1], batch.LossWeights[1] = end-1, 1
	o.Batch, o.Grads = 2, got.grads
	l := need.Value(lossgraph.New(m, got.engine, o))(t)
	defer l.Close()
	_, err := l.Compute(t.Context(), batch)
	require.ErrorContains(t, err, "target 1 of the batch is token 8195; the model hides the tokens 4 to 8195 of images, so it cannot learn to say them")
}
