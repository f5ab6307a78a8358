package refmath

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNorms(t *testing.T) {
	a := From([]float64{1, 3, 3, 4}, 2, 2)
	near(t, Norm(a, 0), []float64{-1, 1, -1, 1}, 2, 2)
	near(t, Norm(a, 3), []float64{-0.5, 0.5, -0.5 / math.Sqrt(3.25), 0.5 / math.Sqrt(3.25)}, 2, 2)
	near(t, RMSNorm(a, 4), []float64{1.0 / 3, 1, 3 / math.Sqrt(16.5), 4 / math.Sqrt(16.5)}, 2, 2)
	near(t, L2Norm(a, 4), []float64{0.25, 0.75, 0.6, 0.8}, 2, 2)
	// Three channels in two groups: {1, 3} and {7}.
	near(t, GroupNorm(From([]float64{1, 3, 7}, 1, 1, 3), 2, 0.25),
		[]float64{-1 / math.Sqrt(1.25), 1 / math.Sqrt(1.25), 0}, 1, 1, 3)
}

func TestSoftMax(t *testing.T) {
	a := From([]float64{0, math.Log(3), math.Log(2), math.Log(2)}, 2, 2)
	near(t, SoftMax(a), []float64{0.25, 0.75, 0.5, 0.5}, 2, 2)
	mask := From([]float64{0, math.Inf(-1), math.Log(4), 0}, 2, 2)
	near(t, SoftMaxExt(a, mask, Tensor{}, 2, 0), []float64{1, 0, 0.8, 0.2}, 2, 2)
	// A sink of weight 4, with weights 1 and 3, and 2 and 2.
	near(t, SoftMaxExt(a, Tensor{}, From([]float64{math.Log(4)}), 1, 0), []float64{0.125, 0.375, 0.25, 0.25}, 2, 2)
	require.Less(t, MaxAbsDiff(SoftMax(From([]float64{1000, 1000})).Data, []float64{0.5, 0.5}), 1e-12)
}

func TestALiBiSlope(t *testing.T) {
	require.Equal(t, 1.0, ALiBiSlope(3, 8, 0))
	for h, want := range []float64{0.25, 1.0 / 16, 1.0 / 64, 1.0 / 256, 0.5, 1.0 / 8} {
		require.InDelta(t, want, ALiBiSlope(int64(h), 6, 8), 1e-12)
	}
}

func TestCrossEntropy(t *testing.T) {
	logits := From([]float64{0, math.Log(3), math.Log(2), math.Log(2)}, 2, 2)
	labels := From([]float64{0, 1, 1, 0}, 2, 2)
	near(t, CrossEntropyLoss(logits, labels), []float64{(math.Log(4.0/3) + math.Ln2) / 2}, 1)
	near(t, CrossEntropyLossBack(From([]float64{2}), logits, labels), []float64{0.25, -0.25, -0.5, 0.5}, 2, 2)
	ids, weights := From([]float64{1, 0}), From([]float64{4, 0.5})
	near(t, CrossEntropy(logits, ids), []float64{math.Log(4.0 / 3), math.Ln2, math.Log(3), math.Ln2, 4.0 / 3, 2}, 2, 3)
	near(t, CrossEntropyBack(logits, ids, weights), []float64{1, -1, -0.25, 0.25}, 2, 2)
}

// With all probabilities but the others' halved, and with equal ones.
func TestDivergence(t *testing.T) {
	logits := From([]float64{math.Log(2), 0, 0}) // q = 1/2, 1/4, 1/4
	ids := From([]float64{0})
	for beta, want := range map[float64]float64{
		0:   0.25*math.Log(0.5) + 0.75*math.Log(1.5),
		1:   0.5*math.Log(2) + 0.5*math.Log(2.0/3),
		0.5: 0.5*(0.25*math.Log(0.25/0.375)+0.75*math.Log(0.75/0.625)) + 0.5*(0.5*math.Log(0.5/0.375)+0.5*math.Log(0.5/0.625)),
	} {
		require.InDelta(t, want, Divergence(logits, ids, From([]float64{0.25, 0.75}), beta).Data[0], 2e-6)
		require.InDelta(t, 0, Divergence(logits, ids, From([]float64{0.5, 0.5}), beta).Data[0], 1e-12)
	}
}

func TestRope(t *testing.T) {
	turn := From([]float64{math.Pi / 2}) // a quarter turn of the first pair
	a := From([]float64{1, 2, 3, 4, 5, 6}, 6)
	p := NewRoPE(4, false)
	p.FreqBase = 16 // the second pair rotates by a quarter of it
	c, s := math.Cos(math.Pi/8), math.Sin(math.Pi/8)
	near(t, RopeExt(a, turn, p), []float64{-2, 1, 3*c - 4*s, 3*s + 4*c, 5, 6}, 6)
	p.NeoX = true
	near(t, RopeExt(a, turn, p), []float64{-3, 2*c - 4*s, 1, 2*s + 4*c, 5, 6}, 6)
	p.Factors = []float64{1, 0.25}
	near(t, RopeExt(a, turn, p), []float64{-3, -4, 1, 2, 5, 6}, 6)
	p.FreqScale, p.AttnFactor = 2, 3
	near(t, RopeExt(a, turn, p), []float64{-3, -6, -9, -12, 5, 6}, 6)
}

func TestRopeYaRN(t *testing.T) {
	p := NewRoPE(8, false)
	p.CtxOrig, p.FreqScale, p.ExtFactor, p.BetaFast, p.BetaSlow = 64, 0.25, 1, 32, 1
	// c(32) < 0 and c(1) = 8·ln(64/2π)/(2·ln 10⁴) ≈ 1.008.
	low, high := p.CorrDims()
	require.Equal(t, 0.0, low)
	require.Equal(t, 2.0, high)
	cos, sin := p.Table(3)
	magnitude := 1 + 0.1*math.Log(4)
	angles := []float64{3, 0.3 * (0.5 + 0.5*0.25), 0.03 * 0.25, 0.003 * 0.25}
	for i, angle := range angles {
		require.InDelta(t, magnitude*math.Cos(angle), cos[i], 1e-12)
		require.InDelta(t, magnitude*math.Sin(angle), sin[i], 1e-12)
	}
}

func TestFlashAttentionByHand(t *testing.T) {
	q := From([]float64{1, 0}, 1, 1, 2)        // two heads, one query
	k := From([]float64{0, math.Log(3)}, 1, 2) // two keys, one key head
	v := From([]float64{4, 8, 0, 4}, 2, 2)     // values of size two
	near(t, FlashAttnExt(q, k, v, Tensor{}, Tensor{}, 1, 0, 0), []float64{1, 5, 2, 6}, 2, 2)
	masked := From([]float64{0, math.Inf(-1)}, 2)
	near(t, FlashAttnExt(q, k, v, masked, Tensor{}, 1, 0, 0), []float64{4, 8, 4, 8}, 2, 2)
	capped := FlashAttnExt(q, k, v, Tensor{}, Tensor{}, 1, 0, 0.5)
	w := sigmoid(0.5 * math.Tanh(2*math.Log(3)))
	near(t, capped, []float64{4 * (1 - w), 8*(1-w) + 4*w, 2, 6}, 2, 2)
}

func TestTimestepEmbedding(t *testing.T) {
	near(t, TimestepEmbedding(From([]float64{0, 2}), 5, 16),
		[]float64{1, 1, 0, 0, 0, math.Cos(2), math.Cos(0.5), math.Sin(2), math.Sin(0.5), 0}, 5, 2)
}

func TestOptimizers(t *testing.T) {
	w, g := From([]float64{2}), From([]float64{0.5})
	near(t, OptStepSGD(w, g, 0.1, 0.5), []float64{2*0.95 - 0.05}, 1)
	// In the first step the corrected moments are g and g², so the update is ±α.
	p := AdamWAt(1, 0.1, 0.9, 0.99, 0, 0.5)
	newW, m, v := OptStepAdamW(w, g, New(1), New(1), p)
	near(t, newW, []float64{2*0.95 - 0.1}, 1)
	near(t, m, []float64{0.05}, 1)
	near(t, v, []float64{0.0025}, 1)
	near(t, p.Tensor(), []float64{0.1, 0.9, 0.99, 0, 0.5, 10, 100}, 7)
	p = AdamWAt(2, 0.1, 0.9, 0.99, 1, 0)
	newW, _, _ = OptStepAdamW(newW, From([]float64{-1}), m, v, p)
	m2, v2 := (0.9*0.05-0.1)/(1-0.81), (0.99*0.0025+0.01)/(1-0.9801)
	near(t, newW, []float64{1.8 - 0.1*m2/(math.Sqrt(v2)+1)}, 1)
}

func TestModelOpProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := draw(t, "a")
		p := SoftMax(a)
		for _, s := range SumRows(p).Data {
			require.InDelta(t, 1, s, 1e-12)
		}
		for _, ms := range Mean(Sqr(RMSNorm(Add(a, From([]float64{10})), 0))).Data {
			require.InDelta(t, 1, ms, 1e-9)
		}
		for _, mean := range Mean(Norm(a, 1e-3)).Data {
			require.InDelta(t, 0, mean, 1e-9)
		}
	})
}

func TestRopeBackUndoesRope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewRoPE(2*rapid.IntRange(1, 3).Draw(t, "pairs"), rapid.Bool().Draw(t, "neox"))
		p.CtxOrig, p.BetaFast, p.BetaSlow = 64, 32, 1
		p.FreqScale = rapid.Float64Range(0.1, 1).Draw(t, "scale")
		p.ExtFactor = rapid.Float64Range(0, 1).Draw(t, "ext")
		a := drawShape(t, "a", 7, 2, 3)
		positions := From(rapid.SliceOfN(rapid.Int64Range(0, 500), 3, 3).Draw(t, "positions"))
		magnitude := 1.0
		if p.ExtFactor != 0 {
			magnitude -= 0.1 * math.Log(p.FreqScale)
		}
		back := RopeExtBack(RopeExt(a, positions, p), positions, p)
		for i, v := range a.Data {
			if i%7 < p.Dims {
				v *= magnitude * magnitude
			}
			require.InDelta(t, v, back.Data[i], 1e-9)
		}
	})
}

// Every backward agrees with central differences of ⟨f(x), dy⟩.
func TestBackwardsAgainstCentralDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, y, dy := Normal(rng, 1, 6, 3), Normal(rng, 1, 6, 3), Normal(rng, 1, 6, 3)
	labels := SoftMax(y)
	rope := NewRoPE(4, true)
	rope.AttnFactor = 1.5
	positions := From([]int{3, 1, 8})
	for name, c := range map[string]struct {
		forward func(x Tensor) Tensor
		got     Tensor
	}{
		"silu":     {Silu, SiluBack(dy, x)},
		"rms_norm": {func(x Tensor) Tensor { return RMSNorm(x, 0.1) }, RMSNormBack(dy, x, 0.1)},
		"norm":     {func(x Tensor) Tensor { return Norm(x, 0.1) }, NormBack(dy, x, 0.1)},
		"soft_max": {func(x Tensor) Tensor { return SoftMax(Scale(x, 0.7)) }, SoftMaxExtBack(dy, SoftMax(Scale(x, 0.7)), 0.7)},
		"rope": {func(x Tensor) Tensor { return Reshape(RopeExt(Reshape(x, 6, 1, 3), positions, rope), 6, 3) },
			RopeExtBack(Reshape(dy, 6, 1, 3), positions, rope)},
		"cross_entropy": {func(x Tensor) Tensor { return Repeat(CrossEntropyLoss(x, labels), 6, 3) }, CrossEntropyLossBack(Sum(dy), x, labels)},
	} {
		t.Run(name, func(t *testing.T) {
			want := NumericGradient(x, 1e-5, func(x Tensor) float64 { return dot(c.forward(x).Data, dy.Data) })
			require.Less(t, RelativeError(c.got.Data, want.Data), 1e-8)
		})
	}
	for _, unit := range []GLU{SwiGLU, GeGLU} {
		dx, dg := GLUBack(unit, dy, x, y)
		want := NumericGradient(x, 1e-5, func(x Tensor) float64 { return dot(GateSplit(unit, x, y).Data, dy.Data) })
		require.Less(t, RelativeError(dx.Data, want.Data), 1e-8)
		want = NumericGradient(y, 1e-5, func(y Tensor) float64 { return dot(GateSplit(unit, x, y).Data, dy.Data) })
		require.Less(t, RelativeError(dg.Data, want.Data), 1e-8)
	}
	require.Panics(t, func() { GLUBack(ReGLU, dy, x, y) })
}

func TestCausalAttentionAgainstCentralDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := [4]Tensor{Normal(rng, 1, 5, 4, 3, 2), Normal(rng, 1, 5, 2, 3, 2), Normal(rng, 1, 5, 2, 3, 2), Normal(rng, 1, 4)}
	dy := Normal(rng, 1, 5, 4, 3, 2)
	some := From([]int{0, 1, 1, 0, 0, 2}, 3, 2)
	for name, a := range map[string]Attention{
		"all": {}, "some": {FirstVisible: some}, "softcap": {Softcap: 2}, "ALiBi": {MaxBias: 3}, "sinks": {Sinks: x[3]},
		"everything": {FirstVisible: some, Softcap: 1, MaxBias: 8, Sinks: x[3]},
		"branches":   {HiddenFrom: From([]int{0, 0, 1, 0, 0, 0}, 3, 2), HiddenTo: From([]int{0, 0, 2, 0, 1, 1}, 3, 2), MaxBias: 8},
	} {
		with := func(x [4]Tensor) Attention {
			a.Q, a.K, a.V, a.Scale = x[0], x[1], x[2], 0.7
			if !a.Sinks.absent() {
				a.Sinks = x[3]
			}
			return a
		}
		dq, dk, dv, dsinks := CausalAttentionBack(dy, with(x))
		for i, got := range []Tensor{dq, dk, dv, dsinks} {
			want := NumericGradient(x[i], 1e-5, func(changed Tensor) float64 {
				x := x
				x[i] = changed
				return dot(CausalAttention(with(x)).Data, dy.Data)
			})
			if i == 3 && with(x).Sinks.absent() {
				require.Zero(t, dot(got.Data, got.Data), name)
				continue
			}
			require.Less(t, RelativeError(got.Data, want.Data), 1e-8, name)
		}
	}
}

// Causal attention equals ggml's attention with a mask of distances.
func TestCausalAttentionIsFlashAttention(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, heads = 5, 6
	a := Attention{
		Q: Normal(rng, 1, 3, heads, n), K: Normal(rng, 1, 3, 2, n), V: Normal(rng, 1, 3, 2, n), Scale: 0.7,
		Softcap: 1.5, MaxBias: 4, Sinks: Normal(rng, 1, heads),
	}
	mask := New(n, n)
	for i := range n {
		for j := range n {
			mask.Data[i*n+j] = float64(j - i)
			if j > i {
				mask.Data[i*n+j] = math.Inf(-1)
			}
		}
	}
	byHead := func(x Tensor) Tensor { return Permute(x, 0, 2, 1, 3) }
	want := FlashAttnExt(byHead(a.Q), byHead(a.K), byHead(a.V), mask, a.Sinks, a.Scale, a.MaxBias, a.Softcap)
	require.Less(t, RelativeError(CausalAttention(a).Data, want.Data), 1e-14)
}

// A query that sees only its window is equal to one in a shorter sequence.
func TestCausalAttentionWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	q, k, v := Normal(rng, 1, 3, 2, 4), Normal(rng, 1, 3, 1, 4), Normal(rng, 1, 3, 1, 4)
	tokens := func(x Tensor, from, to int64) Tensor {
		each := x.Ne[0] * x.Ne[1]
		return From(x.Data[from*each:to*each], x.Ne[0], x.Ne[1], to-from)
	}
	got := CausalAttention(Attention{Q: q, K: k, V: v, Scale: 0.7, FirstVisible: From([]int{0, -9, 2, 9})}) // clamped to 0 0 2 3
	alone := func(from, to int64) Tensor {
		return CausalAttention(Attention{Q: tokens(q, from, to), K: tokens(k, from, to), V: tokens(v, from, to), Scale: 0.7})
	}
	require.Equal(t, alone(0, 2).Data, tokens(got, 0, 2).Data)
	require.Equal(t, alone(2, 3).Data, tokens(got, 2, 3).Data)
	require.Equal(t, alone(3, 4).Data, tokens(got, 3, 4).Data)
}

func TestComparisons(t *testing.T) {
	want := []float64{3, 4}
	require.Equal(t, 1.0, MaxAbsDiff([]float32{3, 5}, want))
	require.InDelta(t, 1.0/25, NMSE([]float64{3, 5}, want), 1e-15)
	require.InDelta(t, 0.2, RelativeError([]float64{3, 5}, want), 1e-15)
	require.InDelta(t, 0.96, Cosine([]float64{4, 3}, want), 1e-15)
	require.Equal(t, 0.0, Cosine([]float64{0, 0}, want))
	require.True(t, math.IsInf(MaxAbsDiff([]float64{math.NaN(), 4}, want), 1))
	require.True(t, math.IsInf(NMSE([]float64{3, math.NaN()}, want), 1))
	inf := []float64{math.Inf(-1)}
	require.Equal(t, 0.0, MaxAbsDiff(inf, inf))
}
