package sample

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
)

func newSampler(t require.TestingT, o Options) *Sampler {
	return need.Value(New(o))(t)
}

func TestGreedy(t *testing.T) {
	s := newSampler(t, Options{})
	inf := float32(math.Inf(-1))
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{1, 3, 2}, 1},
		{[]float32{-1, -3, -1}, 0}, // ties: the first
		{[]float32{inf, inf, -5}, 2},
		{[]float32{7}, 0},
		{[]float32{0, -math.MaxFloat32, math.MaxFloat32}, 2},
	} {
		got := need.Value(s.Sample(c.logits))(t)
		require.Equal(t, c.want, got)
	}
}

func TestBadLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, o := range []Options{{}, {Temperature: 1}, {Temperature: 0.5, TopK: 2, TopP: testutil.Ptr[float32](0.9), MinP: 0.1}} {
		s := newSampler(t, o)
		for _, c := range []struct {
			logits []float32
			err    string
		}{
			{[]float32{1, nan, 2}, "sample: the logit of token 1 is NaN: the weights or adapters of the model may be damaged"},
			{[]float32{inf, 1}, "sample: the logit of token 0 is +Inf: the weights or adapters of the model may be damaged"},
			{[]float32{-inf, -inf}, "sample: no token has a logit above -Inf"},
			{nil, "sample: no token has a logit above -Inf"},
		} {
			_, err := s.Sample(c.logits)
			require.EqualError(t, err, c.err)
		}
		_, err := s.Sample([]float32{1, 2, 3}) // still usable
		require.NoError(t, err)
	}
}

func TestBadOptions(t *testing.T) {
	nan := float32(math.NaN())
	for _, o := range []Options{
		{Temperature: -1}, {Temperature: nan}, {TopK: -1}, {TopP: testutil.Ptr[float32](1.5)}, {TopP: &nan}, {MinP: -0.1}, {MinP: 2},
		{RepeatPenalty: -1}, {FrequencyPenalty: nan}, {PresencePenalty: float32(math.Inf(1))},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, "sample: ", "%+v", o)
	}
}

// randomLogits draws values, some equal or −∞. They are multiples of an eighth, so that rounding does not affect
// filters.
func randomLogits(r *rapid.T) []float32 {
	value := rapid.OneOf(
		rapid.Map(rapid.IntRange(-96, 96), func(i int) float32 { return float32(i) / 8 }),
		rapid.SampledFrom([]float32{0, 1, 2, float32(math.Inf(-1))}),
	)
	return append(rapid.SliceOfN(value, 0, 400).Draw(r, "logits"), 0)
}

// brute computes the probability of each token by the filters' definitions.
func brute(logits []float32, o Options) []float64 {
	p := make([]float64, len(logits))
	out := make([]bool, len(logits))
	normalise := func(temperature float64) {
		sum := 0.0
		for i, l := range logits {
			if p[i] = 0; !out[i] {
				p[i] = math.Exp(float64(l) / temperature)
			}
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
	}
	ranked := make([]int, len(logits))
	for i := range ranked {
		ranked[i] = i
	}
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	if o.TopK > 0 {
		for _, id := range ranked[min(o.TopK, len(ranked)):] {
			out[id] = true
		}
	}
	normalise(1)
	if o.TopP != nil && *o.TopP < 1 {
		mass := 0.0 // sum of the more likely tokens
		for rank, id := range ranked {
			out[id] = out[id] || rank > 0 && mass >= float64(*o.TopP)
			mass += p[id]
		}
	}
	normalise(1)
	if o.MinP > 0 {
		for id := range p {
			out[id] = out[id] || p[id] < float64(o.MinP)*p[ranked[0]]
		}
	}
	normalise(float64(o.Temperature))
	return p
}

// Each filter, and all together, give the probabilities of their definitions.
func TestFilters(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := Options{
			TopK:        rapid.SampledFrom([]int{0, 1, 2, 7, 40, 257, 300, 1000}).Draw(r, "k"),
			TopP:        rapid.SampledFrom([]*float32{nil, testutil.Ptr[float32](0), testutil.Ptr[float32](0.001), testutil.Ptr[float32](0.4937), testutil.Ptr[float32](0.8963), testutil.Ptr[float32](0.9517), testutil.Ptr[float32](1)}).Draw(r, "p"),
			MinP:        rapid.SampledFrom([]float32{0, 0.0517, 0.5117, 1}).Draw(r, "min"),
			Temperature: rapid.SampledFrom([]float32{0.25, 0.5, 1, 2}).Draw(r, "temperature"),
		}
		logits := randomLogits(r)
		want := brute(logits, o)
		s := newSampler(r, o)
		require.NoError(r, s.load(logits))
		s.filter()
		s.softmax(float64(o.Temperature))
		got := make([]float64, len(logits))
		for _, c := range s.list {
			got[c.id] += c.p
		}
		require.InDeltaSlice(r, want, got, 1e-9)
	})
}

// The frequencies of many samples pass a chi-square test.
func TestDistribution(t *testing.T) {
	const draws = 200_000
	logits := []float32{0.3, -1, 2, 1.2, 0, -0.5, 1.9, -6, float32(math.Inf(-1)), 0.7}
	for _, o := range []Options{
		{Temperature: 1, Seed: 1},
		{Temperature: 0.6, Seed: 2},
		{Temperature: 1.7, TopK: 6, Seed: 3},
		{Temperature: 1, TopP: testutil.Ptr[float32](0.9), Seed: 4},
		{Temperature: 0.8, TopK: 8, TopP: testutil.Ptr[float32](0.95), MinP: 0.15, Seed: 5},
	} {
		want := brute(logits, o)
		s := newSampler(t, o)
		counts := make([]float64, len(logits))
		for range draws {
			id := need.Value(s.Sample(logits))(t)
			counts[id]++
		}
		chi2, freedom := 0.0, -1
		for id, p := range want {
			if p == 0 {
				require.Zero(t, counts[id])
				continue
			}
			chi2 += (counts[id] - p*draws) * (counts[id] - p*draws) / (p * draws)
			freedom++
		}
		// The 99.99 % quantile by the approximation of Wilson and Hilferty.
		f := float64(freedom)
		limit := f * math.Pow(1-2/(9*f)+3.719*math.Sqrt(2/(9*f)), 3)
		require.Less(t, chi2, limit, "%+v", o)
	}
}

func TestSeed(t *testing.T) {
	run := func(seed uint64) []int32 {
		s := newSampler(t, Options{Temperature: 1, Seed: seed})
		rng := rand.New(rand.NewPCG(9, 9))
		var ids []int32
		for range 50 {
			logits := make([]float32, 100)
			for i := range logits {
				logits[i] = float32(rng.NormFloat64())
			}
			id := need.Value(s.Sample(logits))(t)
			ids = append(ids, id)
		}
		return ids
	}
	require.Equal(t, run(1), run(1))
	require.NotEqual(t, run(1), run(2))
}

func TestPenalties(t *testing.T) {
	logits := []float32{3, 2.5, -1, -2}
	s := newSampler(t, Options{RepeatPenalty: 2, RepeatLast: testutil.Ptr(3)})
	require.NoError(t, s.load(logits))
	s.Accept(1, 2, 0, 2, 99, -1) // all but the last three are forgotten
	require.NoError(t, s.load(logits))
	require.Equal(t, []float32{3, 2.5, -2, -2}, s.scores)

	s = newSampler(t, Options{FrequencyPenalty: 0.5, PresencePenalty: 0.25, RepeatLast: testutil.Ptr(-1)})
	s.Accept(0, 0, 3)
	require.NoError(t, s.load(logits))
	require.Equal(t, []float32{1.75, 2.5, -1, -2.75}, s.scores)

	// Sampled tokens count, too.
	s = newSampler(t, Options{RepeatPenalty: 1.3})
	var ids []int32
	for range 2 {
		id := need.Value(s.Sample(logits))(t)
		ids = append(ids, id)
	}
	require.Equal(t, []int32{0, 1}, ids)
	require.Equal(t, []float32{3, 2.5, -1, -2}, logits)
}

// An explicit zero differs from an absent option.
func TestZeros(t *testing.T) {
	logits := []float32{1, 1.5, 1.25}
	for seed := range uint64(20) {
		id := need.Value(newSampler(t, Options{Temperature: 2, TopP: testutil.Ptr[float32](0), Seed: seed}).Sample(logits))(t)
		require.EqualValues(t, 1, id, "a top-p of 0 leaves the likeliest token")
	}
	s := newSampler(t, Options{RepeatPenalty: 100, RepeatLast: testutil.Ptr(0)})
	s.Accept(1)
	id := need.Value(s.Sample(logits))(t)
	require.EqualValues(t, 1, id, "no token back is looked at")
}

func BenchmarkSample(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	logits := make([]float32, 128_000)
	for i := range logits {
		logits[i] = float32(3 * rng.NormFloat64())
	}
	for name, o := range map[string]Options{
		"greedy": {}, "usual": {Temperature: 0.8, TopK: 40, TopP: testutil.Ptr[float32](0.95), MinP: 0.05}, "temperature": {Temperature: 1}, "top-p": {Temperature: 1, TopP: testutil.Ptr[float32](0.9)},
	} {
		b.Run(name, func(b *testing.B) {
			s := newSampler(b, o)
			for range b.N {
				if _, err := s.Sample(logits); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// After Forget, the penalties start anew.
func TestForget(t *testing.T) {
	s := newSampler(t, Options{RepeatPenalty: 2})
	logits := []float32{1, 1.5}
	for _, want := range []int32{1, 0} {
		got := need.Value(s.Sample(logits))(t)
		require.Equal(t, want, got)
	}
	s.Forget()
	got := need.Value(s.Sample(logits))(t)
	require.EqualValues(t, 1, got)
}

// even allows tokens with even IDs, and counts masks.
type even struct {
	masks int
	text  []int32
}

func (e *even) Allows(token int32) (bool, error) { return token%2 == 0, nil }

func (e *even) Mask(logits []float32) error {
	e.masks++
	for id := 1; id < len(logits); id += 2 {
		logits[id] = float32(math.Inf(-1))
	}
	return nil
}

func (e *even) Accept(token int32) error {
	e.text = append(e.text, token)
	return nil
}

// A constrained sampler takes the likeliest allowed token, asks for a mask only if it needs one, and samples from the distribution
// of the allowed tokens.
func TestConstraint(t *testing.T) {
	s, c := newSampler(t, Options{}), &even{}
	logits := []float32{1, 2, 1.5}
	require.EqualValues(t, 2, need.Value(s.SampleConstrained(logits, c))(t))
	require.Equal(t, 1, c.masks)
	require.EqualValues(t, 0, need.Value(s.SampleConstrained([]float32{3, 2, 1}, c))(t))
	require.Equal(t, 1, c.masks)
	require.Equal(t, []int32{2, 0}, c.text)
	require.Equal(t, []float32{1, 2, 1.5}, logits)
	_, err := s.SampleConstrained([]float32{float32(math.Inf(-1)), 2}, c)
	require.Equal(t, ErrNoToken, err)

	s, counts := newSampler(t, Options{Temperature: 1, Seed: 3}), map[int32]int{}
	const draws = 20_000
	for range draws {
		counts[need.Value(s.SampleConstrained(logits, c))(t)]++
	}
	require.Len(t, counts, 2)
	require.InDelta(t, 1/(1+math.Exp(0.5)), float64(counts[0])/draws, 0.02)
}
