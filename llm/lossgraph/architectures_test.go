package lossgraph_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// archLength exceeds the windows, and the contexts from which on YaRN, a temperature and factors of RoPE apply.
const archLength = llmtest.LongContext + 3

// forEachArchitecture runs a test on a tiny model of each, in types.
func forEachArchitecture(t *testing.T, types []ggml.Type, test func(t *testing.T, m *model.Model)) {
	require.Equal(t, arch.Architectures(), llmtest.Architectures())
	forEach(t, llmtest.TestedArchitectures(), types, test)
}

func forEach(t *testing.T, names []string, types []ggml.Type, test func(t *testing.T, m *model.Model)) {
	for _, arch := range names {
		for _, typ := range types {
			t.Run(arch+" "+typ.String(), func(t *testing.T) {
				t.Parallel()
				test(t, llmtest.ArchModel(t, arch, typ))
			})
		}
	}
}

// The loss, and the gradients of A and B of every matrix of every layer, of the embedding and of
// the output, agree with the graph in float64.
func TestArchitectureLoRAGradients(t *testing.T) {
	forEachArchitecture(t, []ggml.Type{ggml.F32, ggml.Q8_0}, func(t *testing.T, m *model.Model) {
		s := llmtest.NewLoRASetup(t, m, 3, 0.75)
		requireAllAdapted(t, s)
		batch := llmtest.NewBatch(m.Config().Vocab, archLength)
		o := lossgraph.Options{Length: archLength, Adapters: s.Adapters, Grads: s.Trained()}
		loss, grads := llmtest.ExactGradients(t, m, batch, o, llmtest.RoundedGELU)
		for _, checkpoint := range []bool{false, true} {
			got := s.Compute(t, llmtest.NewEngine(t), batch, lossgraph.Options{
				Length: archLength, Batch: 2, LogitsChunk: 7, Checkpoint: checkpoint, FeedForwardChunk: 5,
			})
			bound := tolerated(m)
			require.InEpsilon(t, loss, got, bound.loss)
			requireGradients(t, grads, o.Grads, bound.gradient)
		}
	})
}

// requireAllAdapted demands a pair for each matrix of the file.
func requireAllAdapted(t *testing.T, s *llmtest.LoRASetup) {
	t.Helper()
	var matrices []string
	for w := range s.Model.Weights() {
		if s.Model.Architecture().Weight(w.Name()).IsAdaptable() {
			matrices = append(matrices, w.Name())
		}
	}
	require.ElementsMatch(t, matrices, slices.Collect(maps.Keys(s.Adapters)))
}

// tolerances are relative errors.
type tolerances struct{ loss, gradient float64 }

// tolerated returns the tolerances for a model. The table of GELU takes an input in F16, which may differ from the one in
// float64.
func tolerated(m *model.Model) tolerances {
	switch {
	case llmtest.LooksUpGELU(m.Config().Arch):
		return tolerances{loss: 3e-5, gradient: 2e-3}
	case llmtest.DividesByLength(m), m.Config().Arch == "deepseek4": // Sinkhorn divides by sums again and again
		return tolerances{loss: 1e-5, gradient: 1.2e-4} // with AVX2 a gradient of qwen4exp differs by 8.0e-5
	}
	return tolerances{loss: 1e-5, gradient: 2e-5}
}

// requireGradients checks the gradients in the accumulators of trained tensors.
func requireGradients(t *testing.T, want map[*ggml.Tensor][]float64, got map[*ggml.Tensor]*ggml.Tensor, bound float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for x, acc := range got {
		values := readValues(t, acc)
		require.Greater(t, refmath.Cosine(values, want[x]), 0.9999, x.Name())
		require.Less(t, refmath.RelativeError(values, want[x]), bound, x.Name())
	}
}

// The gradients of all weights agree too, by both lowerings: of matrices, norms and
// biases, with the embedding's as lookup and as output.
func TestArchitectureWeightGradients(t *testing.T) {
	forEachArchitecture(t, []ggml.Type{ggml.F32}, func(t *testing.T, m *model.Model) {
		batch := llmtest.NewBatch(m.Config().Vocab, archLength)
		requireWeightGradientsOf(t, m, batch, lossgraph.Options{Length: archLength})
	})
}

// requireWeightGradientsOf compares the loss and the gradients of a batch by both
// lowerings, with checkpointing and without, with those that its samples have alone, in float64.
func requireWeightGradientsOf(t *testing.T, m *model.Model, batch lossgraph.Batch, o lossgraph.Options) {
	t.Helper()
	loss, grads := 0.0, map[*ggml.Tensor][]float64{}
	for _, sample := range samplesOf(batch, o.Length) {
		alone := lossgraph.Options{Length: len(sample.Tokens), Context: cmp.Or(o.Context, o.Length), Grads: llmtest.ZeroGrads(t, m)}
		part, partGrads := llmtest.ExactGradients(t, m, sample, alone, llmtest.RoundedGELU)
		loss += part
		for w, g := range partGrads {
			if grads[w] == nil {
				grads[w] = make([]float64, len(g))
			}
			for i := range g {
				grads[w][i] += g[i]
			}
		}
	}
	for _, o.Checkpoint = range []bool{false, true} {
		bound := tolerated(m)
		for _, lowering := range []device.OpSet{device.Kernels, device.Stock} {
			got := newLossSum(t, m, lowering)
			got.compute(batch, o)
			require.InEpsilon(t, loss, llmtest.WeightedLoss(batch, got.losses), bound.loss, lowering)
			requireGradients(t, grads, got.grads, bound.gradient)
		}
	}
}

// samplesOf divides a batch into its samples.
func samplesOf(b lossgraph.Batch, length int) (list []lossgraph.Batch) {
	starts := func(i int) bool { return i%length == 0 || b.Starts != nil && int(b.Starts[i]) == i%length }
	for from, to := 0, 1; to <= len(b.Tokens); to++ {
		if to == len(b.Tokens) || starts(to) {
			list = append(list, lossgraph.Batch{Tokens: b.Tokens[from:to], Targets: b.Targets[from:to], LossWeights: b.LossWeights[from:to]})
			from = to
		}
	}
	return list
}

// Short contexts use their own RoPE factors, and so do short samples that share long rows.
func TestShortContext(t *testing.T) {
	const length = llmtest.LongContext - 1
	m := llmtest.ArchModel(t, "phi3", ggml.F32)
	batch := llmtest.NewBatch(m.Config().Vocab, length)
	requireWeightGradientsOf(t, m, batch, lossgraph.Options{Length: length})

	batch = normalized(packedBatch(m.Config().Vocab, [][]int{{length, 8}, {1, 9, 14}}))
	requireWeightGradientsOf(t, m, batch, lossgraph.Options{Length: packedLength, Packed: true, Context: length})
}

// normalized is a batch with weights that add up to 1.
func normalized(b lossgraph.Batch) lossgraph.Batch {
	total := float32(0)
	for _, w := range b.LossWeights {
		total += w
	}
	for i := range b.LossWeights {
		b.LossWeights[i] /= total
	}
	return b
}
