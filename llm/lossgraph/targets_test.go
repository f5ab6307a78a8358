package lossgraph_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
)

// withTargets gives k different targets to each token, of random probabilities, some of them 0.
func withTargets(b lossgraph.Batch, k, vocab int) lossgraph.Batch {
	rng := rand.New(rand.NewPCG(8, 8))
	b.Targets = nil
	for range b.Tokens {
		for _, id := range rng.Perm(vocab)[:k] {
			b.Targets, b.Probs = append(b.Targets, int32(id)), append(b.Probs, float32(rng.IntN(4))/8)
		}
	}
	return b
}

// The loss of several targets with a temperature is its formula on the logits in float64. Its gradients in float64
// are the central differences, and both op sets agree with them, with logits of all tokens or of a few at a time.
func TestSeveralTargets(t *testing.T) {
	const length, k, temperature = 12, 3, 2.5
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	s := llmtest.NewLoRASetup(t, m, 3, 0.75)
	b := withTargets(llmtest.NewBatch(m.Config().Vocab, length), k, m.Config().Vocab)
	o := lossgraph.Options{Length: length, Adapters: s.Adapters, Grads: s.Trained(), Targets: k, Temperature: temperature}
	want := 0.0
	for row := range 2 {
		for i, z := range llmtest.ExactLogits(t, m, s.Adapters, b.Tokens[row*length:(row+1)*length], length) {
			for j := range z {
				z[j] /= temperature
			}
			token := row*length + i
			for j := token * k; j < (token+1)*k; j++ {
				want += float64(b.LossWeights[token]) * float64(b.Probs[j]) * (refmath.LogSumExp(z) - z[b.Targets[j]])
			}
		}
	}
	loss, grads := llmtest.ExactGradients(t, m, b, o, llmtest.SmoothGELU)
	require.InEpsilon(t, want, loss, 1e-9)
	o.Grads = nil
	llmtest.RequireSlopes(t, llmtest.ExactLoss(t, m, b, o), b, grads, 1e-7, 1e-7)

	o.Batch = 2
	for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
		for _, o.LogitsChunk = range []int{0, 7} {
			e, err := device.New(device.Options{Threads: 2, OpSet: ops})
			require.NoError(t, err)
			t.Cleanup(func() { e.Close() })
			require.InEpsilon(t, want, s.Compute(t, e, b, o), 1e-5, ops)
			requireGradients(t, grads, s.Trained(), 2e-5)
		}
	}
}

// One target of probability 1 is the plain case to the bit.
func TestOneTarget(t *testing.T) {
	const length = 12
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	b := llmtest.NewBatch(m.Config().Vocab, length)
	plain, one := newLossSum(t, m, device.Kernels), newLossSum(t, m, device.Kernels)
	plain.compute(b, lossgraph.Options{Length: length})
	for range b.Tokens {
		b.Probs = append(b.Probs, 1)
	}
	one.compute(b, lossgraph.Options{Length: length, Targets: 1, Temperature: 1})
	require.Equal(t, plain.losses, one.losses)
	for w, acc := range plain.grads {
		require.Equal(t, readValues(t, acc), readValues(t, one.grads[w]), w.Name())
	}
}

func TestTargetErrors(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	e := llmtest.NewEngine(t)
	vocab := m.Config().Vocab
	for want, o := range map[string]lossgraph.Options{
		"the graph takes 97 targets of each token; they are tokens of the vocabulary, which has 96": {Targets: vocab + 1},
		"the temperature is -1; it must be finite and positive, or 0 for 1":                         {Temperature: -1},
		"the temperature is NaN; it must be finite and positive, or 0 for 1":                        {Temperature: float32(math.NaN())},
	} {
		o.Length, o.Batch = 1, 2
		_, err := lossgraph.New(m, e, o)
		require.EqualError(t, err, want)
	}
	compute := func(targets int, b lossgraph.Batch) error {
		l, err := lossgraph.New(m, e, lossgraph.Options{Length: 1, Batch: 2, Targets: targets})
		require.NoError(t, err)
		defer l.Close()
		b.Tokens = make([]int32, 2)
		_, err = l.Compute(context.Background(), b)
		return err
	}
	require.EqualError(t, compute(2, lossgraph.Batch{Targets: []int32{1, 2}}), "the batch has 2 tokens, 2 targets and 0 weights; the graph takes 2, 4 and 2")
	require.EqualError(t, compute(0, lossgraph.Batch{Targets: []int32{1, 2}, Probs: []float32{1, 1}}), "the batch has probabilities of targets; build the graph with Targets")
	require.EqualError(t, compute(1, lossgraph.Batch{Targets: []int32{1, 2}}), "the batch has 0 probabilities for 2 targets")
	require.EqualError(t, compute(1, lossgraph.Batch{Targets: []int32{1, 2}, Probs: []float32{1, -1}}), "token 1 of the batch has a target of probability -1; it must be finite and not negative")
	require.EqualError(t, compute(2, lossgraph.Batch{Targets: []int32{1, 2, 5, 5}, Probs: make([]float32, 4)}), "token 1 of the batch has the target 5 twice; add up the probabilities")
	require.NoError(t, compute(2, lossgraph.Batch{Targets: []int32{1, 2, 2, 1}, Probs: make([]float32, 4)}))
}
