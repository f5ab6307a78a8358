package train_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Twenty steps lower the loss of each architecture, for adapters on a quantised base and for all weights. The last
// two steps of a run that resumes give the same values to the bit.
func TestArchitecturesLearn(t *testing.T) {
	const steps = 20
	require.Equal(t, arch.Architectures(), llmtest.Architectures())
	for _, arch := range llmtest.TestedArchitectures() {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			quantised := llmtest.ArchModel(t, arch, ggml.Q8_0)
			a, err := lora.New(quantised, lora.Options{Rank: 4, Alpha: 8, Seed: 1})
			require.NoError(t, err)
			defer a.Close()
			if !quantised.Architecture().IsCausal() {
				requireUntrained(t, quantised, train.Trainables{Adapters: a.WithScale(1)})
				return
			}
			requireLearns(t, quantised, train.Trainables{Adapters: a.WithScale(1)}, steps)
			m := llmtest.ArchModel(t, arch, ggml.F32)
			requireLearns(t, m, train.Trainables{ModelWeights: trainable(m)}, steps)
		})
	}
}

// requireUntrained checks that a model whose tokens attend to their targets is rejected.
func requireUntrained(t *testing.T, m *model.Model, trained train.Trainables) {
	t.Helper()
	d := data.New(8, patternSamples(2, 8))
	want := "the architecture " + m.Config().Arch + " has attention that is not causal, so each token sees later tokens: it sees the token that it would have to predict; training and evaluation by diffusion are unsupported"
	_, err := train.New(m, trained, d, options(1))
	require.EqualError(t, err, want)
	_, err = train.EstimateMemory(layout.Layout{}, m, trained, d, options(1))
	require.EqualError(t, err, want)
	_, err = train.NewEvaluator(m, train.EvaluatorOptions{})
	require.EqualError(t, err, want)
	require.ErrorIs(t, err, arch.ErrNotCausal)
}

// Embedding models are rejected: they have no logits for a loss.
func TestEncodersAreNotTrained(t *testing.T) {
	m, err := model.Load(llmtest.EncoderFile(t, "bert", 1), model.LoadOptions{})
	require.NoError(t, err)
	defer m.Close()
	const want = "the architecture bert embeds texts and makes no logits: it has no next-token loss, and training on pairs of texts is unsupported"
	_, err = train.New(m, train.Trainables{ModelWeights: trainable(m)}, data.New(8, patternSamples(2, 8)), options(1))
	require.EqualError(t, err, want)
	_, err = train.NewEvaluator(m, train.EvaluatorOptions{})
	require.EqualError(t, err, want)
	require.ErrorIs(t, err, arch.ErrNoLogits)
}

// Adapters of experts in 4-bit types also learn.
func TestTypesOfExpertsLearn(t *testing.T) {
	need.Time(t, "trains many times")
	for _, k := range llmtest.ExpertTypes()[:2] {
		m := k.Load(t, model.LoadOptions{})
		a, err := lora.New(m, lora.Options{Rank: 4, Alpha: 8, Seed: 1, Targets: []string{"ffn_gate_inp", "blk.*_exps"}})
		require.NoError(t, err)
		defer a.Close()
		requireLearns(t, m, train.Trainables{Adapters: a.WithScale(1)}, 20)
	}
}

// trainable returns the weights that have gradients.
func trainable(m *model.Model) []*ggml.Tensor {
	var list []*ggml.Tensor
	for w := range m.Weights() {
		if m.Architecture().Weight(w.Name()).IsTrainable() {
			list = append(list, w)
		}
	}
	return list
}

func requireLearns(t *testing.T, m *model.Model, trained train.Trainables, steps int) {
	t.Helper()
	const length = llmtest.LongContext + 3
	samples := patternSamples(8, length)
	for _, s := range samples {
		for j, token := range s.Tokens {
			s.Tokens[j] = token % int32(m.Config().Vocab)
		}
	}
	d := data.New(length, samples)
	o := options(steps)
	o.Checkpointing, o.Threads = train.CheckpointingOn, 1 // two would wait for each other longer than they compute
	tr, err := train.New(m, trained, d, o)
	require.NoError(t, err)
	defer tr.Close()
	before, err := tr.Evaluate(context.Background(), d)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "checkpoint.gguf")
	requireSteps(t, tr, steps-2)
	require.NoError(t, tr.SaveCheckpoint(path))
	requireSteps(t, tr, steps)
	after, err := tr.Evaluate(context.Background(), d)
	require.NoError(t, err)
	t.Logf("%s: loss %.3f, then %.3f", m.Config().Arch, before.Loss, after.Loss)
	require.Less(t, after.Loss, 0.8*before.Loss)

	values := parameterValues(t, trained)
	resumed, err := train.New(m, trained, d, o)
	require.NoError(t, err)
	defer resumed.Close()
	require.NoError(t, resumed.LoadCheckpoint(path))
	require.NotEqual(t, values, parameterValues(t, trained), "the last two steps changed nothing")
	requireSteps(t, resumed, steps)
	require.Equal(t, tr.History, resumed.History)
	require.Equal(t, values, parameterValues(t, trained))
}

// requireSteps runs a trainer up to a step.
func requireSteps(t *testing.T, tr *train.Trainer, last int) {
	t.Helper()
	for tr.Steps() < last {
		_, err := tr.Step(context.Background())
		require.NoError(t, err)
	}
}

// parameterValues returns the values of what is trained, parameter after parameter.
func parameterValues(t *testing.T, trained train.Trainables) (list [][]float32) {
	t.Helper()
	tensors := slices.Clone(trained.ModelWeights)
	for _, name := range slices.Sorted(maps.Keys(trained.Adapters)) {
		for _, pair := range trained.Adapters[name] {
			tensors = append(tensors, pair.A, pair.B)
		}
	}
	for _, x := range tensors {
		values, err := ggml.Read[float32](x)
		require.NoError(t, err)
		list = append(list, values)
	}
	return list
}
