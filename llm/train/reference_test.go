package train_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// exactly returns the mean loss over the weighted tokens of samples, and the gradients of all weights,
// in float64.
func exactly(t *testing.T, m *model.Model, samples []data.Sample) (loss float64, grads map[string][]float64) {
	t.Helper()
	weight := func(s data.Sample, i int) float32 {
		if s.LossWeights == nil {
			return 1
		}
		return s.LossWeights[i]
	}
	total := 0.0
	for _, s := range samples {
		for i := range len(s.Tokens) - 1 {
			total += float64(weight(s, i))
		}
	}
	grads = map[string][]float64{}
	for _, s := range samples {
		n := len(s.Tokens) - 1
		b := lossgraph.Batch{Tokens: s.Tokens[:n], Targets: s.Tokens[1:]}
		for i := range n {
			b.LossWeights = append(b.LossWeights, float32(float64(weight(s, i))/total))
		}
		o := lossgraph.Options{Length: n, Grads: llmtest.ZeroGrads(t, m)}
		part, partGrads := llmtest.ExactGradients(t, m, b, o, llmtest.SmoothGELU)
		loss += part
		for w, g := range partGrads {
			if grads[w.Name()] == nil {
				grads[w.Name()] = make([]float64, len(g))
			}
			for i, x := range g {
				grads[w.Name()][i] += x
			}
		}
	}
	return loss, grads
}

// ragged returns samples of all lengths, some with weights.
func ragged(samples, length int) *data.Dataset {
	rng := rand.New(rand.NewPCG(8, 1))
	list := patternSamples(samples, length)
	for i := range list {
		s := &list[i]
		s.Tokens = s.Tokens[:2+rng.IntN(length)]
		if i%3 == 0 {
			s.LossWeights = make([]float32, len(s.Tokens)-1)
			for j := range s.LossWeights {
				s.LossWeights[j] = []float32{0, 0.25, 1, 2.5}[rng.IntN(4)]
			}
		}
	}
	return data.New(length, list)
}

// samplesOf lists the samples of all rows.
func samplesOf(t *testing.T, d *data.Dataset) []data.Sample {
	t.Helper()
	var list []data.Sample
	for i := range d.Len() {
		row := need.Value(d.Row(i))(t)
		list = append(list, row...)
	}
	return list
}

// A whole run equals a float64 implementation: batches, accumulation, masks, schedule, clipping,
// decay.
func TestRunAgainstReference(t *testing.T) {
	const steps = 6
	m := tinyModel(t)
	d := ragged(11, 10)
	o := train.Options{
		Schedule: train.Schedule{Peak: 0.003, Floor: 0.0005, Warmup: 2, Steps: steps},
		AdamW:    train.AdamW{Beta1: 0.8, Beta2: 0.95, Epsilon: 1e-3, Decay: 0.1, Clip: 0.5},
		Batch:    3, Accumulate: 2, Seed: 17, Threads: 2,
	}
	ref, exact := tinyModel(t), map[string]refmath.Tensor{} // weights
	start := map[string]refmath.Tensor{}
	first, second := map[string]refmath.Tensor{}, map[string]refmath.Tensor{}
	for _, w := range weights(ref) {
		values := need.Value(ggml.Read[float32](w))(t)
		x, name := refmath.From(values, w.Shape()...), w.Name()
		start[name], exact[name], first[name], second[name] = x.Clone(), x, refmath.New(x.Ne[:]...), refmath.New(x.Ne[:]...)
	}
	tr := newTrainer(t, m, d, o)
	clipped := 0
	for step := 1; step <= steps; step++ {
		got := need.Value(tr.Step(context.Background()))(t)

		var batch []data.Sample
		samples := samplesOf(t, d)
		for i := range o.Batch * o.Accumulate {
			at := (&data.Shuffler{Seed: o.Seed, N: d.Len()}).At((step-1)*o.Batch*o.Accumulate + i)
			batch = append(batch, samples[at])
		}
		loss, grads := exactly(t, ref, batch)
		norm := gradientNorm(grads)
		require.InEpsilon(t, loss, got.Loss, 1e-5, "step %d", step)
		require.InEpsilon(t, norm, got.GradNorm, 1e-4, "step %d", step)
		require.InEpsilon(t, o.Schedule.At(step), got.LearningRate, 1e-12)
		factor := 1.0
		if norm > o.AdamW.Clip {
			factor = o.AdamW.Clip / norm
			clipped++
		}
		for name, g := range grads {
			a, w := o.AdamW, exact[name]
			clippedGrad := refmath.Scale(refmath.From(g, w.Ne[:]...), factor)
			exact[name], first[name], second[name] = refmath.OptStepAdamW(w, clippedGrad, first[name], second[name],
				refmath.AdamWAt(step, o.Schedule.At(step), a.Beta1, a.Beta2, a.Epsilon, a.Decay))
			require.NoError(t, ggml.Write(ref.Weight(name), exact[name].Float32()))
		}
	}
	require.Positive(t, clipped)
	for _, p := range weights(m) {
		got := need.Value(ggml.Read[float32](p))(t)
		want := exact[p.Name()]
		var change, wanted []float64
		for i, before := range start[p.Name()].Data {
			change = append(change, float64(got[i])-before)
			wanted = append(wanted, want.Data[i]-before)
		}
		require.Less(t, refmath.RelativeError(change, wanted), 1e-3, p.Name())
	}
}

func gradientNorm(grads map[string][]float64) float64 {
	sum := 0.0
	for _, g := range grads {
		for _, x := range g {
			sum += x * x
		}
	}
	return math.Sqrt(sum)
}

// The mean is over weighted tokens, however they are divided into batches.
func TestEvaluateAgainstReference(t *testing.T) {
	m := tinyModel(t)
	d := ragged(10, 9)
	want, _ := exactly(t, m, samplesOf(t, d))
	for _, batch := range []int{1, 4, 10, 16} {
		o := options(1)
		o.Batch = batch
		tr := newTrainer(t, m, d, o)
		got := need.Value(tr.Evaluate(context.Background(), d))(t)
		require.InEpsilon(t, want, got.Loss, 1e-6, "batch of %d", batch)
	}

	// Samples of another length than the run's.
	long := pattern(3, 30)
	want, _ = exactly(t, m, samplesOf(t, long))
	tr := newTrainer(t, m, d, options(1))
	got := need.Value(tr.Evaluate(context.Background(), long))(t)
	require.InEpsilon(t, want, got.Loss, 1e-6)

	_, err := tr.Evaluate(context.Background(), &data.Dataset{Length: 4})
	require.EqualError(t, err, "the data set has no samples")
	untrained := patternSamples(2, 4)
	for i := range untrained {
		untrained[i].LossWeights = make([]float32, 4)
	}
	_, err = tr.Evaluate(context.Background(), data.New(4, untrained))
	require.EqualError(t, err, "no token of the data set is trained")
}

// Weights belong to tokens: a token of weight 0 may have any value, one of weight 2 counts twice.
func TestWeightsOfTokens(t *testing.T) {
	sample := data.Sample{Tokens: []int32{1, 2, 3, 4, 5}, LossWeights: []float32{1, 0, 2, 0.5}}
	other := data.Sample{Tokens: []int32{1, 2, 3, 4, 5, 6, 7}, LossWeights: []float32{0, 0, 0, 0.25, 0, 0}}
	d := data.New(6, []data.Sample{sample, other})
	m := tinyModel(t)
	loss, grads := exactly(t, m, samplesOf(t, d))
	o := options(1)
	o.Batch = 2
	got := need.Value(newTrainer(t, m, d, o).Step(context.Background()))(t)
	require.InEpsilon(t, loss, got.Loss, 1e-6)
	require.InEpsilon(t, gradientNorm(grads), got.GradNorm, 1e-5)
}
