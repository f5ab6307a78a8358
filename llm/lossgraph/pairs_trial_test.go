package lossgraph_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/oracle"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// What follows is a trial of a loss that nothing outside of this file knows of: preferences of pairs of answers that go
// on from one prompt (DPO, arXiv 2305.18290), beside other samples.

const (
	pairsLength = 48 // of a row
	numPairs    = 2  // samples 2i and 2i+1 are the chosen and the rejected answer of pair i; the last sample is of text
)

// A pairsLayout puts samples into rows.
type pairsLayout struct {
	b     lossgraph.Batch
	start int32 // of the sample in its row
}

// newRow fills the row with samples of one token each, which count for nothing.
func (l *pairsLayout) newRow() {
	for len(l.b.Tokens)%pairsLength != 0 {
		l.begin()
		l.add([]int32{0}, []int32{0}, 0, 0, [2]int32{})
	}
}

func (l *pairsLayout) begin() { l.start = int32(len(l.b.Tokens) % pairsLength) }

func (l *pairsLayout) add(tokens, targets []int32, weight float32, sample int32, hidden [2]int32) {
	for i, token := range tokens {
		l.b.Tokens, l.b.Targets = append(l.b.Tokens, token), append(l.b.Targets, targets[i])
		l.b.LossWeights, l.b.Samples = append(l.b.LossWeights, weight), append(l.b.Samples, sample)
		l.b.Starts, l.b.Hidden = append(l.b.Starts, l.start), append(l.b.Hidden, hidden)
	}
}

// pairsBatch is random text, and pairs of answers, whose prompt is there once if they share it.
func pairsBatch(vocab int, shared bool) lossgraph.Batch {
	l, rng := &pairsLayout{}, rand.New(rand.NewPCG(12, 3))
	random := func(n int) []int32 {
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = int32(rng.IntN(vocab))
		}
		return tokens
	}
	text := random(8)
	l.begin()
	l.add(text[:7], text[1:], 0.5, 2*numPairs, [2]int32{})
	for pair := range int32(numPairs) {
		prompt, last := random(7+int(pair)), []int32{rng.Int32N(int32(vocab))}
		l.begin()
		var hidden [2]int32
		for side, answer := range [][]int32{random(9), random(5)} {
			if side == 1 && !shared {
				l.begin()
			}
			if side == 0 || !shared {
				l.add(prompt, append(prompt[1:len(prompt):len(prompt)], last...), 0, 0, [2]int32{})
			}
			own := int32(len(l.b.Tokens) % pairsLength)
			if side == 1 && shared {
				hidden = [2]int32{l.start + int32(len(prompt)), own}
			}
			l.add(append(last[:1:1], answer[:len(answer)-1]...), answer, 1, 2*pair+int32(side), hidden)
		}
		if pair == 0 {
			l.newRow()
		}
	}
	l.newRow()
	if !shared {
		l.b.Hidden = nil
	}
	return l.b
}

// preferences returns DPO's loss, given the log-probabilities of the reference, and the loss of
// plain text.
func preferences(reference []float64) lossgraph.SampleLoss {
	const beta = 0.7
	return func(logProbs []float64) (loss float64, slopes []float64) {
		loss, slopes = lossgraph.CrossEntropy(logProbs[2*numPairs:])
		slopes = append(make([]float64, 2*numPairs), slopes...)
		for i := range numPairs {
			chosen, rejected := 2*i, 2*i+1
			margin := beta * (logProbs[chosen] - reference[chosen] - logProbs[rejected] + reference[rejected])
			loss += math.Log1p(math.Exp(-margin)) // −log σ(margin)
			slopes[chosen] = -beta / (1 + math.Exp(margin))
			slopes[rejected] = -slopes[chosen]
		}
		return loss, slopes
	}
}

func logProbs(t *testing.T, m *model.Model, e *device.Engine, b lossgraph.Batch, o lossgraph.Options) []float64 {
	t.Helper()
	o.Grads = nil
	l := need.Value(lossgraph.New(m, e, o))(t)
	defer l.Close()
	losses := need.Value(l.Compute(context.Background(), b))(t)
	return need.Value(b.LogProbs(losses))(t)
}

func weighted(t *testing.T, b lossgraph.Batch, slopes []float64) lossgraph.Batch {
	t.Helper()
	return need.Value(b.WithSlopes(slopes))(t)
}

func pairsOptions(b lossgraph.Batch) lossgraph.Options {
	return lossgraph.Options{Length: pairsLength, Batch: len(b.Tokens) / pairsLength, Packed: true, Branched: b.Hidden != nil}
}

// The gradient of an adapter by signed weights is the central difference of the loss, of answers that share no prompt:
// in float64 to seven digits, and by both op sets as near as F32 is.
func TestTrialOfPairs(t *testing.T) {
	need.Time(t, "many gradients")
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	shared, apart := pairsBatch(m.Config().Vocab, true), pairsBatch(m.Config().Vocab, false)
	require.Less(t, numTrained(shared), len(shared.Tokens))
	s := llmtest.NewLoRASetup(t, m, 3, 0.75)
	withAdapters := func(b lossgraph.Batch) lossgraph.Options {
		o := pairsOptions(b)
		o.Adapters, o.Grads = s.Adapters, s.Trained()
		return o
	}

	// What the loss is, by answers apart in float64.
	reference := exactLogProbs(llmtest.ExactLoss(t, m, apart, pairsOptions(apart)), apart)
	loss := preferences(reference)
	o := withAdapters(apart)
	o.Grads = nil
	policy := llmtest.ExactLoss(t, m, apart, o)
	want, slopes := loss(exactLogProbs(policy, apart))
	require.Negative(t, slopes[0])
	require.Positive(t, slopes[1])

	_, exact := llmtest.ExactGradients(t, m, weighted(t, shared, slopes), withAdapters(shared), llmtest.SmoothGELU)
	rng := rand.New(rand.NewPCG(7, 7))
	for x, grad := range exact {
		direction, along, norm := make([]float64, len(grad)), 0., 0.
		for i, g := range grad {
			direction[i] = rng.NormFloat64()
			along, norm = along+direction[i]*g, norm+g*g
		}
		at := func(h float64) float64 {
			leaf := policy.Leaf(x)
			for i, d := range direction {
				leaf[i] += h * d
			}
			value, _ := loss(exactLogProbs(policy, apart))
			for i, d := range direction {
				leaf[i] -= h * d
			}
			return value
		}
		const h = 1e-6
		require.NotZero(t, norm, x.Name())
		require.InDelta(t, (at(h)-at(-h))/(2*h), along, 3e-7*math.Sqrt(norm*float64(len(grad)))+1e-8, x.Name())
	}

	for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
		e := need.Value(device.New(device.Options{Threads: 2, OpSet: ops}))(t)
		t.Cleanup(func() { e.Close() })
		got, slopes := preferences(logProbs(t, m, e, shared, pairsOptions(shared)))(logProbs(t, m, e, shared, withAdapters(shared)))
		require.InEpsilon(t, want, got, 1e-5)
		s.Compute(t, e, weighted(t, shared, slopes), pairsOptions(shared))
		for x, acc := range s.Trained() {
			require.Less(t, refmath.RelativeError(readValues(t, acc), exact[x]), 2e-4, x.Name())
		}
	}
}

func numTrained(b lossgraph.Batch) (n int) {
	for _, w := range b.LossWeights {
		if w != 0 {
			n++
		}
	}
	return n
}

// exactLogProbs are Batch.LogProbs in float64.
func exactLogProbs(p *oracle.Program, b lossgraph.Batch) []float64 {
	sums := make([]float64, 2*numPairs+1)
	for i, loss := range p.Run().Named("losses") {
		sums[b.Samples[i]] -= float64(b.LossWeights[i]) * loss
	}
	return sums
}

// Answers that share a prompt have the log-probabilities and the gradients of answers apart, of each architecture that
// knows of other tokens by attention alone: with windows, ALiBi, and recomputed layers. Other architectures return an
// error with the remedy.
func TestBranchedSamples(t *testing.T) {
	forEachArchitecture(t, []ggml.Type{ggml.F32}, func(t *testing.T, m *model.Model) {
		shared, apart := pairsBatch(m.Config().Vocab, true), pairsBatch(m.Config().Vocab, false)
		if m.Architecture().CheckBranched() != nil {
			_, err := lossgraph.New(m, llmtest.NewEngine(t), pairsOptions(shared))
			require.ErrorContains(t, err, "give each answer its own sample, with its own prompt")
			return
		}
		e := llmtest.NewEngine(t)
		want := logProbs(t, m, e, apart, pairsOptions(apart))
		require.InEpsilonSlice(t, want, logProbs(t, m, e, shared, pairsOptions(shared)), 1e-4)

		_, slopes := preferences(make([]float64, 2*numPairs))(want)
		alone := newLossSum(t, m, device.Kernels)
		alone.compute(weighted(t, apart, slopes), pairsOptions(apart))
		o := pairsOptions(shared)
		o.Checkpoint = true
		branched := newLossSum(t, m, device.Kernels)
		branched.compute(weighted(t, shared, slopes), o)
		for w, grad := range alone.grads {
			require.LessOrEqual(t, refmath.RelativeError(readValues(t, branched.grads[w]), refmath.From(readValues(t, grad)).Data), 1e-3, w.Name())
		}
	})
}

// Cross-entropy is the plain case: its weights are the batch's to the bit.
func TestCrossEntropyOfSamples(t *testing.T) {
	b := lossgraph.Batch{Tokens: make([]int32, 3), LossWeights: []float32{0.1, 0, 0.3}, Samples: []int32{1, 0, 0}}
	sums := need.Value(b.LogProbs([]float32{2, float32(math.NaN()), 1}))(t)
	require.InDeltaSlice(t, []float64{-0.3, -0.2}, sums, 1e-7)
	loss, slopes := lossgraph.CrossEntropy(sums)
	require.InDelta(t, 0.5, loss, 1e-7)
	require.Equal(t, b.LossWeights, weighted(t, b, slopes).LossWeights)
	require.Equal(t, []float32{0.2, 0, -0.3}, weighted(t, b, []float64{1, -2}).LossWeights)
	_, err := b.WithSlopes([]float64{1})
	require.EqualError(t, err, "there are 1 slopes for the 2 samples of the batch")
	_, err = b.LogProbs(nil)
	require.EqualError(t, err, "there are 0 losses for the 3 tokens of the batch")
	b.Samples[1] = -1
	_, err = b.WithSlopes(slopes)
	require.EqualError(t, err, "token 1 of the batch counts for sample -1; sample numbers start at 0 and stay below the number of tokens, 3")
	b.Samples = make([]int32, 2)
	_, err = b.LogProbs(make([]float32, 3))
	require.EqualError(t, err, "the batch has 3 tokens, 3 weights and 2 sample numbers; it needs equally many of each")
	b.LossWeights, b.Samples = nil, nil
	sums = need.Value(b.LogProbs([]float32{1, 2, 3}))(t)
	require.InDeltaSlice(t, []float64{-2}, sums, 1e-6)
}

func TestBranchedErrors(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	_, err := lossgraph.New(m, llmtest.NewEngine(t), lossgraph.Options{Length: 3, Batch: 1, Branched: true})
	require.EqualError(t, err, "a branched graph holds packed samples; set Packed too")
	const rule = "; it must be empty, equal to the previous token's interval, or end at the token itself and begin after a token of its sample that hides nothing"
	none := [2]int32{}
	for want, k := range map[string]struct {
		hidden   [][2]int32
		branched bool
	}{
		"": {[][2]int32{none, none, {1, 2}, {2, 3}, none, none, none, {2, 3}}, true},
		"the batch has samples with several ends; build the graph with Branched":          {make([][2]int32, 8), false},
		"the batch has 3 hidden intervals and 8 sample starts; the graph takes 8 of each": {make([][2]int32, 3), true},
		"token 0 of row 0 has the hidden interval [0 1]" + rule:                           {[][2]int32{{0, 1}, none, none, none, none, none, none, none}, true},
		"token 2 of row 0 has the hidden interval [0 2]" + rule:                           {[][2]int32{none, none, {0, 2}, none, none, none, none, none}, true}, // all of the sample
		"token 2 of row 0 has the hidden interval [1 3]" + rule:                           {[][2]int32{none, none, {1, 3}, none, none, none, none, none}, true}, // itself
		"token 3 of row 0 has the hidden interval [0 0]" + rule:                           {[][2]int32{none, none, {1, 2}, none, none, none, none, none}, true}, // sees what is hidden before
		"token 3 of row 0 has the hidden interval [1 2]" + rule:                           {[][2]int32{none, none, none, {1, 2}, none, none, none, none}, true}, // late
		"token 3 of row 0 has the hidden interval [-7 3]" + rule:                          {[][2]int32{none, none, none, {-7, 3}, none, none, none, none}, true},
	} {
		l := need.Value(lossgraph.New(m, llmtest.NewEngine(t), lossgraph.Options{Length: 4, Batch: 2, Packed: true, Branched: k.branched}))(t)
		_, err := l.Compute(context.Background(), lossgraph.Batch{Tokens: make([]int32, 8), Targets: make([]int32, 8), Starts: []int32{0, 0, 0, 0, 0, 1, 1, 1}, Hidden: k.hidden})
		if want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
		l.Close()
	}
}
