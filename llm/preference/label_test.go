package preference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/recordfile"
	"github.com/goggml/ggml/llm/data"
)

// labelledLoss is the loss of labelled answers as TRL's KTOTrainer defines it, from the log-probabilities of the policy
// and the reference by label.
func labelledLoss(name string, o Options, policy, reference map[data.Label][]float64) float64 {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	kl := 0.0
	for i, p := range policy[data.Mismatched] {
		kl += (p - reference[data.Mismatched][i]) / float64(len(policy[data.Mismatched]))
	}
	kl = math.Max(kl, 0)
	var losses []float64
	for i, p := range policy[data.Desirable] {
		ratio := p - reference[data.Desirable][i]
		loss := 1 - sigmoid(o.Beta*(ratio-kl))
		if name == "apo-zero-unpaired" {
			loss = 1 - sigmoid(o.Beta*ratio)
		}
		losses = append(losses, o.DesirableWeight*loss)
	}
	for i, p := range policy[data.Undesirable] {
		ratio := p - reference[data.Undesirable][i]
		loss := 1 - sigmoid(o.Beta*(kl-ratio))
		if name == "apo-zero-unpaired" {
			loss = sigmoid(o.Beta * ratio)
		}
		losses = append(losses, o.UndesirableWeight*loss)
	}
	sum := 0.0
	for _, l := range losses {
		sum += l / float64(len(losses))
	}
	return sum
}

// labelRandomly labels random samples; every other one is mismatched.
func labelRandomly(rng *rand.Rand, samples []data.Sample) (labels map[data.Label][]int) {
	labels = map[data.Label][]int{}
	for i := range samples {
		samples[i].Label = data.Mismatched
		if i%2 == 0 {
			samples[i].Label = []data.Label{data.Desirable, data.Undesirable}[rng.IntN(2)]
		}
		labels[samples[i].Label] = append(labels[samples[i].Label], i)
	}
	return labels
}

func pick(values []float64, at []int) (list []float64) {
	for _, i := range at {
		list = append(list, values[i])
	}
	return list
}

// Each loss of labels is TRL's, and its slopes are the central differences with the baseline fixed, whether the
// baseline is positive or not.
func TestLossesOfLabels(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	above, below := 0, 0
	for range 12 {
		for _, name := range []string{"kto", "apo-zero-unpaired"} {
			o := Options{Terms: []Term{{Name: name, Weight: 1.5}, {Name: "sft", Weight: 0.3}}, Beta: 0.2, DesirableWeight: 1.3, UndesirableWeight: 0.6}
			samples, logProbs, ref := randomPairs(rng, 5)
			var references []float64
			for _, s := range samples {
				references = append(references, ref.logProb(s))
			}
			labels := labelRandomly(rng, samples)
			ref = &Reference{logProbs: map[recordfile.Key]float64{}}
			for i, s := range samples {
				ref.logProbs[s.Hash()] = references[i]
			}
			l, err := New(o, ref)
			require.NoError(t, err)

			by := func(values []float64) map[data.Label][]float64 {
				of := map[data.Label][]float64{}
				for label, at := range labels {
					of[label] = pick(values, at)
				}
				return of
			}
			imitated := func(logProbs []float64) float64 {
				sum, tokens := 0., 0.
				for _, i := range labels[data.Desirable] {
					sum, tokens = sum-logProbs[i], tokens+length(samples[i])
				}
				return sum / math.Max(tokens, 1e-9)
			}
			loss := func(logProbs []float64) float64 {
				return 1.5*labelledLoss(name, o, by(logProbs), by(references)) + 0.3*imitated(logProbs)
			}
			value, slopes := l.Of(samples)(logProbs)
			require.InEpsilon(t, loss(logProbs), value, 1e-9)
			rewards := l.Rewards(samples, logProbs)
			if rewards.KL > 0 {
				above++
			} else if name == "kto" {
				below++
			}
			const h = 1e-5
			for i, s := range samples {
				if s.Label == data.Mismatched {
					require.Zero(t, slopes[i])
					continue
				}
				at := func(by float64) float64 {
					moved := slices.Clone(logProbs)
					moved[i] += by
					return loss(moved)
				}
				require.InDelta(t, (at(h)-at(-h))/(2*h), slopes[i], 1e-8, "%v, sample %d", o, i)
			}
		}
	}
	require.Positive(t, above)
	require.Positive(t, below)
}

// Rewards are summed for each label; an answer counts as judged rightly on its side of the baseline.
func TestRewardsOfLabels(t *testing.T) {
	ref := &Reference{logProbs: map[recordfile.Key]float64{}}
	var samples []data.Sample
	for i, label := range []data.Label{data.Desirable, data.Mismatched, data.Undesirable, data.Mismatched, data.Desirable, data.Mismatched} {
		samples = append(samples, data.Sample{Tokens: []int32{1, int32(i)}, Label: label})
		ref.logProbs[samples[i].Hash()] = -2
	}
	l, err := New(Options{Terms: []Term{{Name: "kto"}}, Beta: 0.5}, ref)
	require.NoError(t, err)
	require.Equal(t, "kto, beta 0.5", l.Name)
	r := l.Rewards(samples, []float64{-1, -1.5, -1.75, -1, -1.5, -2}) // the baseline is 0.5
	require.InDeltaSlice(t, []float64{0.375, 0.125, 2. / 3, 0.5, 0.25}, []float64{r.Chosen, r.Rejected, r.Accuracy, r.KL, r.Margin()}, 1e-12)
	r = l.Rewards(samples[:2], []float64{-3, -3})
	require.InDeltaSlice(t, []float64{-0.5, 0, 0}, []float64{r.Chosen, r.Accuracy, r.KL}, 1e-12)
	require.True(t, math.IsNaN(r.Rejected))
}
