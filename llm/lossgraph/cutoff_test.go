package lossgraph_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lossgraph"
)

// Rounding must not decide which activations of a sparse network count: in a tiny one few do, and one more changed gradients
// by 0.8 %. In the batches of other tests they keep away from the cutoff.
func TestActivationsAwayFromCutoff(t *testing.T) {
	need.Time(t, "many gradients")
	m := llmtest.ArchModel(t, "gemma3n", ggml.F32)
	vocab := m.Config().Vocab
	pairs := pairsBatch(vocab, false)
	away := func(b lossgraph.Batch, o lossgraph.Options) {
		above := llmtest.ExactLoss(t, m, b, o).Run().Named(nn.AboveCutoff)
		require.NotEmpty(t, above)
		least := math.Inf(1)
		for _, x := range above {
			least = min(least, math.Abs(x))
		}
		require.Greater(t, least, 1e-4)
	}
	away(pairs, pairsOptions(pairs))
	away(llmtest.NewBatch(vocab, archLength), lossgraph.Options{Length: archLength, Batch: 2})
	away(packedBatch(vocab, packedRows()), lossgraph.Options{Length: packedLength, Batch: 3, Packed: true})
}
