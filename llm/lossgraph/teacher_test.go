package lossgraph_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
)

// taught adds a teacher's k most likely tokens for each token, and returns the logits of the teacher.
func taught(b lossgraph.Batch, k, vocab int, temperature float64) (lossgraph.Batch, []refmath.Tensor) {
	rng := rand.New(rand.NewPCG(8, 8))
	var logits []refmath.Tensor
	for range b.Tokens {
		z := refmath.Normal(rng, 2, int64(vocab))
		logits = append(logits, z)
		lse, rest := refmath.LogSumExp(refmath.Scale(z, 1/temperature).Data), 1.0
		for _, id := range refmath.ArgSort(z, true).Data[:k] {
			p := math.Exp(z.Data[int(id)]/temperature - lse)
			b.Taught, b.Probs = append(b.Taught, int32(id)), append(b.Probs, float32(p))
			rest -= p
		}
		b.Probs = append(b.Probs, float32(max(0, rest)))
	}
	return b, logits
}

// The loss beside a teacher is its formula on the logits in float64. Its gradients in float64 are the central
// differences, and both op sets agree with them, with logits of all tokens or of a few at a time: for forward, reverse
// and mixed divergences, with and without temperature and cross-entropy, of a few tokens and of the whole vocabulary.
func TestTeacher(t *testing.T) {
	const length = 12
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	vocab := m.Config().Vocab
	s := llmtest.NewLoRASetup(t, m, 3, 0.75)
	for _, teacher := range []lossgraph.Teacher{
		{TopK: 5}, {TopK: 3, Beta: 1, Temperature: 2.5}, {TopK: 7, Beta: 0.3, Temperature: 0.8, CrossEntropy: 0.4}, {TopK: vocab, CrossEntropy: 2},
	} {
		t.Run(fmt.Sprintf("%+v", teacher), func(t *testing.T) {
			temperature := max(1, float64(teacher.Temperature))
			if teacher.Temperature > 0 {
				temperature = float64(teacher.Temperature)
			}
			b, _ := taught(llmtest.NewBatch(vocab, length), teacher.TopK, vocab, temperature)
			o := lossgraph.Options{Length: length, Adapters: s.Adapters, Grads: s.Trained(), Teacher: &teacher}
			want, entropy := 0.0, 0.0
			for row := range 2 {
				for i, z := range llmtest.ExactLogits(t, m, s.Adapters, b.Tokens[row*length:(row+1)*length], length) {
					at, k := row*length+i, teacher.TopK
					logits := refmath.From(z)
					own := refmath.LogSumExp(z) - z[b.Targets[at]]
					loss := refmath.Divergence(refmath.Scale(logits, 1/temperature), refmath.From(b.Taught[at*k:(at+1)*k]), refmath.From(b.Probs[at*(k+1):(at+1)*(k+1)]), float64(teacher.Beta))
					entropy += float64(b.LossWeights[at]) * own
					want += float64(b.LossWeights[at]) * (loss.Data[0] + float64(teacher.CrossEntropy)*own)
				}
			}
			loss, grads := llmtest.ExactGradients(t, m, b, o, llmtest.SmoothGELU)
			require.InEpsilon(t, want, loss, 1e-7)
			o.Grads = nil
			llmtest.RequireSlopes(t, llmtest.ExactLoss(t, m, b, o), b, grads, 1e-6, 1e-6)

			o.Batch = 2
			for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
				for _, o.LogitsChunk = range []int{0, 7} {
					e, err := device.New(device.Options{Threads: 2, OpSet: ops})
					require.NoError(t, err)
					t.Cleanup(func() { e.Close() })
					require.InEpsilon(t, want, s.Compute(t, e, b, o), 2e-5, ops)
					requireGradients(t, grads, s.Trained(), 5e-5)
					for _, o.Grads = range []map[*ggml.Tensor]*ggml.Tensor{nil, s.Trained()} {
						l := need.Value(lossgraph.New(m, e, o))(t)
						need.Value(l.Compute(context.Background(), b))(t)
						sum := 0.0
						for i, x := range need.Value(l.CrossEntropy())(t) {
							sum += float64(b.LossWeights[i]) * float64(x)
						}
						require.InEpsilon(t, entropy, sum, 2e-5, ops)
						require.NoError(t, l.Close())
					}
					o.Grads = nil
				}
			}
		})
	}
}

// Where a teacher gives no token a probability, no divergence is learned: loss and gradients are as without the token's
// weight, and its cross-entropy is all that remains.
func TestSilentTeacher(t *testing.T) {
	const length, k = 12, 5
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	vocab := m.Config().Vocab
	s := llmtest.NewLoRASetup(t, m, 3, 0.75)
	for _, share := range []float32{0, 0.4} {
		all, _ := taught(llmtest.NewBatch(vocab, length), k, vocab, 1)
		silent, without, alone := all, all, all
		silent.Probs, without.LossWeights, alone.LossWeights = slices.Clone(all.Probs), slices.Clone(all.LossWeights), make([]float32, len(all.LossWeights))
		for i := range all.Tokens {
			if i%3 == 0 {
				clear(silent.Probs[i*(k+1) : (i+1)*(k+1)])
				without.LossWeights[i], alone.LossWeights[i] = 0, share*all.LossWeights[i]
			}
		}
		alone.Taught, alone.Probs = nil, nil
		o := lossgraph.Options{Length: length, Adapters: s.Adapters, Grads: s.Trained()}
		want, grads := llmtest.ExactGradients(t, m, alone, o, llmtest.SmoothGELU)
		o.Teacher = &lossgraph.Teacher{TopK: k, CrossEntropy: share}
		rest, more := llmtest.ExactGradients(t, m, without, o, llmtest.SmoothGELU)
		want += rest
		for p, g := range more {
			for i, x := range g {
				grads[p][i] += x
			}
		}
		o.Batch = 2
		for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
			e := need.Value(device.New(device.Options{Threads: 2, OpSet: ops}))(t)
			require.InEpsilon(t, want, s.Compute(t, e, silent, o), 1e-4, ops)
			requireGradients(t, grads, s.Trained(), 1e-4)
			require.NoError(t, e.Close())
		}
	}
}

func TestTeacherErrors(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	e := llmtest.NewEngine(t)
	vocab := m.Config().Vocab
	for want, teacher := range map[string]lossgraph.Teacher{
		"the graph takes the 97 most likely tokens of a teacher; at least 1 is needed, and the vocabulary has 96": {TopK: vocab + 1},
		"the graph takes the 0 most likely tokens of a teacher; at least 1 is needed, and the vocabulary has 96":  {},
		"the temperature is -1; it must be finite and positive, or 0 for 1":                                       {TopK: 1, Temperature: -1},
		"the temperature is NaN; it must be finite and positive, or 0 for 1":                                      {TopK: 1, Temperature: float32(math.NaN())},
		"beta is 1.5; it must be from 0, forward KL, to 1, reverse KL":                                            {TopK: 1, Beta: 1.5},
		"the weight of cross-entropy is -1; it must be finite and not negative":                                   {TopK: 1, CrossEntropy: -1},
	} {
		_, err := lossgraph.New(m, e, lossgraph.Options{Length: 1, Batch: 2, Teacher: &teacher})
		require.EqualError(t, err, want)
	}
	compute := func(k int, b lossgraph.Batch) error {
		o := lossgraph.Options{Length: 1, Batch: 2}
		if k > 0 {
			o.Teacher = &lossgraph.Teacher{TopK: k}
		}
		l, err := lossgraph.New(m, e, o)
		require.NoError(t, err)
		defer l.Close()
		b.Tokens, b.Targets = make([]int32, 2), make([]int32, 2)
		_, err = l.Compute(context.Background(), b)
		return err
	}
	half := []float32{0.25, 0.25, 0.5, 0.25, 0.25, 0.5}
	require.EqualError(t, compute(0, lossgraph.Batch{Taught: []int32{1, 2}}), "the batch has tokens of a teacher; build the graph with Teacher")
	require.EqualError(t, compute(2, lossgraph.Batch{Taught: []int32{1, 2}}), "the batch has 2 tokens of a teacher and 0 probabilities; the graph takes 4 and 6")
	require.EqualError(t, compute(2, lossgraph.Batch{Taught: []int32{1, 2, 5, 5}, Probs: half}), "token 1 of the batch has the teacher's token 5 twice")
	require.EqualError(t, compute(2, lossgraph.Batch{Taught: []int32{1, 2, 5, 96}, Probs: half}), "token 1 of the batch has the teacher's token 96; the vocabulary has 96")
	require.EqualError(t, compute(1, lossgraph.Batch{Taught: []int32{1, 2}, Probs: []float32{1, 0, -1, 0}}), "token 1 of the batch has a probability of -1 by the teacher; it must be from 0 to 1")
	require.NoError(t, compute(2, lossgraph.Batch{Taught: []int32{1, 2, 2, 1}, Probs: half}))
}
