package preference

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/recordfile"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/train"
)

// formulas are the losses of a pair as TRL defines them, by sums and lengths, term by term.
var formulas = map[string]func(o Options, c, r, refC, refR, lenC, lenR float64) float64{
	"dpo": func(o Options, c, r, refC, refR, _, _ float64) float64 {
		logits := (c - r) - (refC - refR)
		return -math.Log(1/(1+math.Exp(-o.Beta*logits)))*(1-o.Smoothing) - math.Log(1/(1+math.Exp(o.Beta*logits)))*o.Smoothing
	},
	"hinge": func(o Options, c, r, refC, refR, _, _ float64) float64 {
		return math.Max(0, 1-o.Beta*((c-r)-(refC-refR)))
	},
	"ipo": func(o Options, c, r, refC, refR, lenC, lenR float64) float64 {
		logits := (c/lenC - r/lenR) - (refC/lenC - refR/lenR)
		return math.Pow(logits-1/(2*o.Beta), 2)
	},
	"apo-zero": func(o Options, c, r, refC, refR, _, _ float64) float64 {
		return 1 - 1/(1+math.Exp(-o.Beta*(c-refC))) + 1/(1+math.Exp(-o.Beta*(r-refR)))
	},
	"simpo": func(o Options, c, r, _, _, lenC, lenR float64) float64 {
		logits := (c/lenC - r/lenR) - o.Gamma/o.Beta
		return -math.Log(1/(1+math.Exp(-o.Beta*logits)))*(1-o.Smoothing) - math.Log(1/(1+math.Exp(o.Beta*logits)))*o.Smoothing
	},
	"orpo": func(o Options, c, r, _, _, lenC, lenR float64) float64 { // its cross-entropy is a term of the whole step
		c, r = c/lenC, r/lenR
		logOdds := (c - r) - (math.Log1p(-math.Exp(c)) - math.Log1p(-math.Exp(r)))
		return -o.Beta * math.Log(1/(1+math.Exp(-logOdds)))
	},
	"sft": func(Options, float64, float64, float64, float64, float64, float64) float64 { return 0 },
}

// randomPairs returns samples of pairs, with weighted tokens, their log-probabilities and a reference.
func randomPairs(rng *rand.Rand, pairs int) (samples []data.Sample, logProbs []float64, ref *Reference) {
	ref = &Reference{logProbs: map[recordfile.Key]float64{}}
	for i := range 2 * pairs {
		s := data.Sample{Tokens: []int32{int32(i)}}
		for range 2 + rng.IntN(8) {
			s.Tokens, s.LossWeights = append(s.Tokens, rng.Int32N(99)), append(s.LossWeights, float32(rng.IntN(2)))
		}
		s.LossWeights[0] = 0.5
		samples, logProbs = append(samples, s), append(logProbs, -length(s)*(0.1+3*rng.Float64()))
		ref.logProbs[s.Hash()] = logProbs[i] + 2*rng.NormFloat64()
	}
	return samples, logProbs, ref
}

// Each loss, alone and in a weighted sum, is the mean of its formula over the pairs, and its slopes are the central
// differences.
func TestLosses(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 9))
	var all []Term
	for name := range formulas {
		all = append(all, Term{name, 0.5 + rng.Float64()})
	}
	cases := [][]Term{all}
	for name := range formulas {
		if name != "sft" {
			cases = append(cases, []Term{{Name: name}}, []Term{{Name: name, Weight: 2}, {"sft", 0.3}})
		}
	}
	for _, terms := range cases {
		for _, o := range []Options{{Beta: 0.1}, {Beta: 2.5, Smoothing: 0.2, Gamma: 0.7}} {
			o.Terms = terms
			samples, logProbs, ref := randomPairs(rng, 5)
			l, err := New(o, ref)
			require.NoError(t, err)
			value, slopes := l.Of(samples)(logProbs)
			want, imitated, tokens := 0., 0., 0.
			for i := 0; i < len(samples); i += 2 {
				imitated -= logProbs[i]
				tokens += length(samples[i])
				for _, term := range terms {
					w := term.Weight
					if w == 0 {
						w = 1
					}
					want += w / 5 * formulas[term.Name](o, logProbs[i], logProbs[i+1], ref.logProb(samples[i]), ref.logProb(samples[i+1]), length(samples[i]), length(samples[i+1]))
				}
			}
			for _, term := range terms {
				if term.Name == "sft" || term.Name == "orpo" {
					w := term.Weight
					if w == 0 {
						w = 1
					}
					want += w * imitated / tokens
				}
			}
			require.InEpsilon(t, want, value, 1e-9, "%v", o)
			const h = 1e-5
			for i := range logProbs {
				at := func(by float64) float64 {
					logProbs[i] += by
					defer func() { logProbs[i] -= by }()
					v, _ := l.Of(samples)(logProbs)
					return v
				}
				require.InDelta(t, (at(h)-at(-h))/(2*h), slopes[i], 1e-8, "%v, sample %d", o, i)
			}
		}
	}
}

// Rewards are beta times the values that the loss compares.
func TestRewards(t *testing.T) {
	weights := []float32{0, 1, 1}
	samples := []data.Sample{
		{Tokens: []int32{1, 2, 3, 4}, LossWeights: weights}, {Tokens: []int32{1, 2, 5, 6}, LossWeights: weights},
		{Tokens: []int32{1, 7, 3, 4}, LossWeights: weights}, {Tokens: []int32{1, 8}},
	}
	logProbs := []float64{-4, -6, -5, -1}
	ref := &Reference{logProbs: map[recordfile.Key]float64{}}
	for i, p := range []float64{-5, -4, -5, -3} {
		ref.logProbs[samples[i].Hash()] = p
	}
	for name, want := range map[string]train.Rewards{
		"dpo":   {Chosen: 0.5 * (1 + 0) / 2, Rejected: 0.5 * (-2 + 2) / 2, Accuracy: 0.5},
		"ipo":   {Chosen: 0.5 * (0.5 + 0) / 2, Rejected: 0.5 * (-1 + 2) / 2, Accuracy: 0.5},
		"simpo": {Chosen: 0.5 * (-2 - 2.5) / 2, Rejected: 0.5 * (-3 - 1) / 2, Accuracy: 0.5},
	} {
		l, err := New(Options{Terms: []Term{{Name: "sft"}, {Name: name}}, Beta: 0.5}, ref)
		require.NoError(t, err)
		require.Equal(t, want, l.Rewards(samples, logProbs), name)
	}
	require.InDelta(t, 0.25, train.Rewards{Chosen: 1, Rejected: 0.75}.Margin(), 1e-15)
}

// The evaluations of pairs or labelled answers add up to the loss of all, and to the accuracy.
func TestEvaluationsOfRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range Names() {
		if name == "sft" {
			continue
		}
		o, err := Options{Terms: []Term{{Name: name, Weight: 0.7}, {Name: "sft", Weight: 0.3}}, Beta: 0.4, UndesirableWeight: 2}.complete()
		require.NoError(t, err)
		labels := []data.Label{data.Desirable, data.Undesirable}
		rows := 6
		if o.JudgesLabels() {
			labels, rows = []data.Label{data.Desirable, data.Mismatched, data.Undesirable}, 8
		}
		var sides []side
		for i := range 12 {
			sides = append(sides, side{-10 * rng.Float64(), -10 * rng.Float64(), float64(1 + i%3), labels[i%len(labels)]})
		}
		losses, _ := o.losses(sides)
		want := 0.0
		for _, l := range losses {
			want += l
		}
		each, rewards := o.evaluate(sides)
		require.Len(t, each, rows, name)
		got, err := train.Total(each)
		require.NoError(t, err)
		require.InEpsilon(t, want, got.Loss, 1e-12, name)
		require.InEpsilon(t, rewards.Accuracy, got.Accuracy, 1e-12, name)
		require.NotContains(t, []float64{0, 1}, got.Accuracy, name)
	}
}

// Log-probabilities far apart give finite losses and slopes.
func TestExtremes(t *testing.T) {
	for _, name := range Names() {
		if name == "sft" {
			continue
		}
		l, err := New(Options{Terms: []Term{{Name: name}}}, &Reference{logProbs: map[recordfile.Key]float64{
			data.Sample{Tokens: []int32{1, 2}}.Hash(): -3, data.Sample{Tokens: []int32{1, 3}}.Hash(): -3,
		}})
		require.NoError(t, err)
		for _, logProbs := range [][]float64{{0, -9000}, {-9000, 0}, {0, 0}} {
			loss, slopes := l.Of([]data.Sample{{Tokens: []int32{1, 2}}, {Tokens: []int32{1, 3}}})(logProbs)
			for _, x := range append(slopes, loss) {
				require.False(t, math.IsNaN(x) || math.IsInf(x, 0), "%s of %v: %v %v", name, logProbs, loss, slopes)
			}
		}
	}
}

func TestOptionErrors(t *testing.T) {
	dpo := []Term{{Name: "dpo"}}
	for want, o := range map[string]Options{
		"no loss compares answers; add one, such as dpo":                                                             {Terms: []Term{{Name: "sft"}}},
		`there is no loss "ppo"; the losses are apo-zero, apo-zero-unpaired, dpo, hinge, ipo, kto, orpo, sft, simpo`: {Terms: []Term{{Name: "ppo"}}},
		"the loss dpo is given twice; give it once, with the sum of the weights":                                     {Terms: []Term{{Name: "dpo"}, {Name: "dpo"}}},
		"the weight of the loss dpo is -1; it must be positive and finite":                                           {Terms: []Term{{"dpo", -1}}},
		"beta is -1; it must be positive and finite":                                                                 {Terms: dpo, Beta: -1},
		"the label smoothing is 0.5; it must be at least 0 and below 0.5":                                            {Terms: dpo, Smoothing: 0.5},
		"the weight of an answer is -2; it must be positive and finite":                                              {Terms: []Term{{Name: "kto"}}, UndesirableWeight: -2},
		"the loss dpo compares the answers of pairs, and kto judges labelled answers; choose one of them":            {Terms: []Term{{Name: "kto"}, {Name: "sft"}, {Name: "dpo"}}},
		"gamma is NaN; it must be finite":                                                                            {Terms: dpo, Gamma: math.NaN()},
	} {
		_, err := New(o, &Reference{})
		require.EqualError(t, err, want)
	}
	_, err := New(Options{Terms: dpo}, nil)
	require.EqualError(t, err, "the loss dpo, beta 0.1 compares with a reference, which is nil")
	l, err := New(Options{Terms: []Term{{Name: "simpo"}, {"sft", 0.2}}, Beta: 2, Gamma: 0.5, Smoothing: 0.1}, nil)
	require.NoError(t, err)
	require.Equal(t, "simpo + 0.2 sft, beta 2, label smoothing 0.1, gamma 0.5", l.Name)
	l, err = New(Options{Terms: dpo}, &Reference{})
	require.NoError(t, err)
	loss, _ := l.Of([]data.Sample{{Tokens: []int32{1, 2}}, {Tokens: []int32{1, 3}}})([]float64{-1, -2})
	require.True(t, math.IsNaN(loss), "a sample that the reference lacks")
}
