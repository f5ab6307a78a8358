package lossgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/lossgraph"
)

// Every gradient of an adapter points where the exact one on the dequantised
// weights does, also when the products are in BF16. How far that is off grows with
// the weights and the layers: these are 1.4 times as large as in a fresh model.
func TestGradientCosine(t *testing.T) {
	need.Time(t, "gradients of each type")
	const length = 24
	types := []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.Q8_0, ggml.Q6_K, ggml.Q4_K, ggml.Q4_0, ggml.IQ4NL}
	for _, typ := range types {
		t.Run(typ.String(), func(t *testing.T) {
			s := llmtest.NewLoRASetup(t, llmtest.NoisyModel(t, llmtest.BlockConfig(), typ, 0.02), 8, 0.75)
			batch, accumulators := llmtest.NewBatch(s.Model.Config().Vocab, length), s.Trained()
			loss, grads := llmtest.ExactGradients(t, s.Model, batch,
				lossgraph.Options{Length: length, Adapters: s.Adapters, Grads: accumulators}, llmtest.SmoothGELU)
			for _, o := range []lossgraph.Options{
				{ComputeType: ggml.F32}, {ComputeType: ggml.F32, Checkpoint: true, FeedForwardChunk: 7},
				{ComputeType: ggml.BF16}, {ComputeType: ggml.BF16, Checkpoint: true, FeedForwardChunk: 7},
				{ComputeType: ggml.F16}, {ComputeType: ggml.F16, Checkpoint: true, FeedForwardChunk: 7},
			} {
				if o.ComputeType == ggml.BF16 && !kernels.HasBF16() || o.ComputeType == ggml.F16 && !kernels.HasF16Accumulation() {
					continue
				}
				o.Length, o.Batch = length, 2
				least, lossError := 0.9999999, 1e-5
				if o.ComputeType != ggml.F32 {
					least, lossError = 0.9999, 2e-3
				}
				got := s.Compute(t, llmtest.NewEngine(t), batch, o)
				require.InEpsilon(t, loss, got, lossError)
				worst, where := 1.0, ""
				for x, acc := range accumulators {
					if c := refmath.Cosine(readValues(t, acc), grads[x]); c < worst {
						worst, where = c, x.Name()
					}
				}
				t.Logf("products in %v, checkpoint %v: loss %.6f of %.6f, least cosine %.7f in %s", o.ComputeType, o.Checkpoint, got, loss, worst, where)
				require.Greater(t, worst, least, "%+v: %s", o, where)
			}
		})
	}
}
