package model_test

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/internal/refmodel"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// archLength is longer than the windows, and than the contexts from which YaRN, a
// temperature and factors of RoPE reach out.
const archLength = llmtest.LongContext + 3

// forEachArchitecture runs a test on a tiny model of each, in types.
func forEachArchitecture(t *testing.T, types []ggml.Type, test func(t *testing.T, m *model.Model)) {
	require.Equal(t, model.Architectures(), llmtest.Architectures())
	for _, arch := range llmtest.Architectures() {
		for _, typ := range types {
			t.Run(arch+" "+typ.String(), func(t *testing.T) {
				t.Parallel()
				test(t, llmtest.ArchModel(t, arch, typ))
			})
		}
	}
}

// The loss, and the gradients of A and B of every matrix of every layer, of the
// embedding and of the output, agree with the float64 model and with its central
// differences along random directions.
func TestArchitectureLoRAGradients(t *testing.T) {
	forEachArchitecture(t, []ggml.Type{ggml.F32, ggml.Q8_0}, func(t *testing.T, m *model.Model) {
		s := llmtest.NewLoRASetup(t, m, 3, 0.75)
		s.Ref.LongRoPE = true
		requireAllAdapted(t, s)
		batch, sequences := llmtest.NewBatch(m.Vocab, archLength)
		s.Ref.F16GELU = true
		loss, grads, err := s.Ref.Gradient(sequences)
		require.NoError(t, err)
		s.Ref.F16GELU = false // central differences would see its steps
		directions := randomDirections(t, s.Ref, sequences, grads, 3)
		for _, checkpoint := range []bool{false, true} {
			got := s.Compute(t, llmtest.NewEngine(t), batch, model.TrainGraphOptions{
				Length: archLength, Batch: 2, LogitsChunk: 7, Checkpoint: checkpoint, FeedForwardChunk: 5,
			})
			bound := tolerated(m, checkpoint)
			require.InEpsilon(t, loss, got, bound.loss)
			values := map[string][]float32{}
			for name, acc := range s.Grads {
				values[name], err = ggml.Read[float32](acc)
				require.NoError(t, err)
			}
			requireGradients(t, grads, values, bound.gradient)
			for _, d := range directions {
				slope := 0.0
				for name, x := range d.x {
					slope += dot(values[name], x)
				}
				require.InEpsilon(t, d.slope, slope, bound.slope, "checkpoint %v", checkpoint)
			}
		}
	})
}

// requireAllAdapted demands a pair for each matrix that the float64 model multiplies by.
func requireAllAdapted(t *testing.T, s *llmtest.LoRASetup) {
	t.Helper()
	var matrices []string
	for _, name := range s.Ref.WeightNames() {
		w, err := s.Ref.Weight(name)
		require.NoError(t, err)
		if w.Ne[1] > 1 {
			matrices = append(matrices, name)
		}
	}
	require.Equal(t, matrices, slices.Sorted(maps.Keys(s.Adapters)))
}

// tolerances are relative errors.
type tolerances struct{ loss, gradient, slope float64 }

// tolerated are those of a model. Checkpoints keep their inputs to 18 bits; the table of
// GELU takes an input in F16, which may be another than in float64, and its slope is that
// of the smooth function.
func tolerated(m *model.Model, checkpoint bool) tolerances {
	switch {
	case m.Arch == "gemma3":
		return tolerances{loss: 3e-5, gradient: 2e-3, slope: 1e-3}
	case checkpoint:
		return tolerances{loss: 1e-5, gradient: 1e-4, slope: 1e-5}
	}
	return tolerances{loss: 1e-5, gradient: 2e-5, slope: 1e-5}
}

// requireGradients demands the gradients of the float64 model.
func requireGradients(t *testing.T, want refmodel.Gradients, got map[string][]float32, bound float64) {
	t.Helper()
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for _, name := range slices.Sorted(maps.Keys(want)) {
		require.Greater(t, refmath.Cosine(got[name], want[name].Data), 0.9999, name)
		require.Less(t, refmath.RelativeError(got[name], want[name].Data), bound, name)
	}
}

// A direction in the space of adapters, and the central difference of the loss along it.
type direction struct {
	x     map[string][]float64
	slope float64
}

// randomDirections are such that the loss rises in each element, so that the slope does
// not vanish beside an error of the gradient.
func randomDirections(t *testing.T, ref *refmodel.Model, batch []refmodel.Sequence, grads refmodel.Gradients, n int) []direction {
	t.Helper()
	const h = 1e-5
	rng := rand.New(rand.NewPCG(5, 6))
	var list []direction
	for range n {
		d := direction{x: map[string][]float64{}}
		for _, name := range ref.LoRANames() {
			w, err := ref.Weight(name)
			require.NoError(t, err)
			x := make([]float64, len(w.Data))
			for i := range x {
				x[i] = math.Copysign(rng.NormFloat64(), grads[name].Data[i]) / math.Sqrt(float64(len(x)))
			}
			d.x[name] = x
		}
		loss := func(step float64) float64 {
			for name, x := range d.x {
				w, err := ref.Weight(name)
				require.NoError(t, err)
				for i := range x {
					w.Data[i] += step * x[i]
				}
			}
			l, err := ref.Loss(batch...)
			require.NoError(t, err)
			return l
		}
		d.slope = (loss(h) - loss(-2*h)) / (2 * h)
		loss(h) // puts all back
		list = append(list, d)
	}
	return list
}

// The gradients of all weights agree too, by both lowerings: of matrices, norms and
// biases, with the embedding's as lookup and as output.
func TestArchitectureWeightGradients(t *testing.T) {
	forEachArchitecture(t, []ggml.Type{ggml.F32}, func(t *testing.T, m *model.Model) {
		batch, sequences := llmtest.NewBatch(m.Vocab, archLength)
		for _, checkpoint := range []bool{false, true} {
			requireWeightGradientsOf(t, m, batch, sequences, model.TrainGraphOptions{Length: archLength, Checkpoint: checkpoint})
		}
	})
}

// requireWeightGradientsOf compares the loss and the gradients of a batch by both
// lowerings with those of the float64 model for its sequences.
func requireWeightGradientsOf(t *testing.T, m *model.Model, batch model.Batch, sequences []refmodel.Sequence, o model.TrainGraphOptions) {
	t.Helper()
	ref := llmtest.Reference(t, m)
	ref.LongRoPE, ref.F16GELU = cmp.Or(o.Context, o.Length) >= llmtest.LongContext, true
	constants := func(name string) bool { return strings.HasPrefix(name, "rope_") || strings.HasSuffix(name, ".scale") }
	want, grads, err := ref.Gradient(sequences, slices.DeleteFunc(ref.WeightNames(), constants)...)
	require.NoError(t, err)
	bound := tolerated(m, o.Checkpoint)
	for _, lowering := range []device.Lowering{device.Kernels, device.Stock} {
		got := newLossSum(t, m, lowering)
		got.compute(batch, o)
		require.InEpsilon(t, want, llmtest.WeightedLoss(batch, got.losses), bound.loss, lowering)
		values := map[string][]float32{}
		for w, grad := range got.grads {
			values[w.Name()] = readValues(t, grad)
		}
		requireGradients(t, grads, values, bound.gradient)
	}
}

// Runs in short contexts have the RoPE factors for these, and so have short samples that
// share long rows.
func TestShortContext(t *testing.T) {
	const length = llmtest.LongContext - 1
	m := llmtest.ArchModel(t, "phi3", ggml.F32)
	batch, sequences := llmtest.NewBatch(m.Vocab, length)
	requireWeightGradientsOf(t, m, batch, sequences, model.TrainGraphOptions{Length: length})

	batch, sequences = packedSequences(m.Vocab, [][]int{{length, 8}, {1, 9, 14}})
	requireWeightGradientsOf(t, m, batch, sequences, model.TrainGraphOptions{Length: packedLength, Packed: true, Context: length})
}

// packedSequences are a batch of packed samples, of which the weights add up to 1, and these.
func packedSequences(vocab int, rows [][]int) (model.Batch, []refmodel.Sequence) {
	batch := packedBatch(vocab, rows)
	var sequences []refmodel.Sequence
	from, total := 0, float32(0)
	for _, n := range slices.Concat(rows...) {
		q := refmodel.Sequence{Inputs: batch.Tokens[from : from+n], Targets: batch.Targets[from : from+n]}
		for _, w := range batch.Weights[from : from+n] {
			q.Weights = append(q.Weights, float64(w))
			total += w
		}
		sequences = append(sequences, q)
		from += n
	}
	for i := range batch.Weights {
		batch.Weights[i] /= total
	}
	return batch, sequences
}
