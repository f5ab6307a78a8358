package lora_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

func TestNewShapes(t *testing.T) {
	m := tinyModel(t, false)
	a := newAdapter(t, m, lora.Options{
		Rank: 4, Ranks: map[string]int{"attn_q": 8, "ffn_up": 0, "token_embd": 3, "output": 2}, Alpha: 16,
	})
	type shapes struct{ A, B []int64 }
	got := map[string]shapes{}
	for _, p := range a.Pairs() {
		got[p.Base] = shapes{p.A.Shape(), p.B.Shape()}
		require.Equal(t, ggml.F32, p.A.Type())
		require.Equal(t, p.Base+".lora_a", p.A.Name())
		require.Equal(t, p.Base+".lora_b", p.B.Name())
		require.False(t, slices.ContainsFunc(floats(t, p.B), func(v float32) bool { return v != 0 }), "B of %s", p.Base)
		require.True(t, slices.ContainsFunc(floats(t, p.A), func(v float32) bool { return v != 0 }), "A of %s", p.Base)
	}
	require.Equal(t, map[string]shapes{
		"token_embd.weight":        {[]int64{3, 96}, []int64{3, 64}},
		"blk.0.attn_q.weight":      {[]int64{64, 8}, []int64{8, 64}},
		"blk.0.attn_k.weight":      {[]int64{64, 4}, []int64{4, 32}},
		"blk.0.attn_v.weight":      {[]int64{64, 4}, []int64{4, 32}},
		"blk.0.attn_output.weight": {[]int64{64, 4}, []int64{4, 64}},
		"blk.0.ffn_gate.weight":    {[]int64{64, 4}, []int64{4, 96}},
		"blk.0.ffn_down.weight":    {[]int64{96, 4}, []int64{4, 64}},
		"blk.1.attn_q.weight":      {[]int64{64, 8}, []int64{8, 64}},
		"blk.1.attn_k.weight":      {[]int64{64, 4}, []int64{4, 32}},
		"blk.1.attn_v.weight":      {[]int64{64, 4}, []int64{4, 32}},
		"blk.1.attn_output.weight": {[]int64{64, 4}, []int64{4, 64}},
		"blk.1.ffn_gate.weight":    {[]int64{64, 4}, []int64{4, 96}},
		"blk.1.ffn_down.weight":    {[]int64{96, 4}, []int64{4, 64}},
		"output.weight":            {[]int64{64, 2}, []int64{2, 96}},
	}, got)
	require.Equal(t, 8, a.Rank())
	perLayer := 8*(64+64) + 4*(2*(64+32)+(64+64)+2*(64+96))
	require.EqualValues(t, 2*perLayer+3*(96+64)+2*(64+96), a.NumParameters())
}

// The values of a pair depend on its name, its rank and the seed alone.
func TestNewDeterministic(t *testing.T) {
	m := tinyModel(t, false)
	values := func(a *lora.Adapter, base string) []float32 {
		for _, p := range a.Pairs() {
			if p.Base == base {
				return floats(t, p.A)
			}
		}
		require.Fail(t, "there is no pair", base)
		return nil
	}
	const k0, k1 = "blk.0.attn_k.weight", "blk.1.attn_k.weight"
	all := newAdapter(t, m, lora.Options{Rank: 4, Seed: 1})
	some := newAdapter(t, m, lora.Options{Rank: 4, Seed: 1, Targets: []string{"attn_v", "attn_k"}})
	other := newAdapter(t, m, lora.Options{Rank: 4, Seed: 2})
	require.Equal(t, values(all, k0), values(some, k0))
	require.NotEqual(t, values(all, k0), values(all, k1))
	require.NotEqual(t, values(all, k0), values(other, k0))
	require.Len(t, some.Pairs(), 4)
}

// The moments of A: mean 0, and the variance of the distribution. With n
// samples the mean is off by σ/√n, the variance by about σ²·√(2/n).
func TestInitDistribution(t *testing.T) {
	c := tinyConfig(false)
	c.Embd, c.FF = 256, 384
	m := newModel(t, c, t.Cleanup)
	for _, test := range []struct {
		init     lora.Init
		variance func(p lora.Pair) float64
		bound    func(p lora.Pair) float64
	}{
		{lora.InitNormal, func(lora.Pair) float64 { return 1.0 / 16 }, func(lora.Pair) float64 { return 6.0 / 4 }},
		{lora.InitKaiming, func(p lora.Pair) float64 { return 1 / (3 * fanIn(p)) }, func(p lora.Pair) float64 { return 1 / math.Sqrt(fanIn(p)) }},
	} {
		a := newAdapter(t, m, lora.Options{Rank: 16, Init: test.init, Ranks: map[string]int{"token_embd": 16}})
		for _, p := range a.Pairs() {
			values := floats(t, p.A)
			var sum, squares, largest float64
			for _, v := range values {
				sum += float64(v)
				squares += float64(v) * float64(v)
				largest = max(largest, math.Abs(float64(v)))
			}
			n, want := float64(len(values)), test.variance(p)
			require.InDelta(t, 0, sum/n, 5*math.Sqrt(want/n), "mean of %s", p.Base)
			require.InEpsilon(t, want, squares/n, 5*math.Sqrt(2/n), "variance of %s", p.Base)
			require.LessOrEqual(t, largest, test.bound(p)*1.0001, p.Base)
		}
	}
}

func fanIn(p lora.Pair) float64 {
	if p.Base == "token_embd.weight" {
		return 1
	}
	return float64(p.A.Dim(0))
}

func TestNewFaults(t *testing.T) {
	tied := tinyModel(t, true)
	_, err := lora.New(tied, lora.Options{
		Rank: 4, Ranks: map[string]int{"output": 2, "attn_q": -1, "attn_x": 3}, Init: "xavier", Alpha: float32(math.NaN()),
	})
	for _, part := range []string{
		`the target "output" is missing`, `"attn_q" has rank -1`, `there is no target "attn_x"`,
		`unknown initialisation "xavier"`, "alpha is NaN",
	} {
		require.ErrorContains(t, err, part)
	}
	_, err = lora.New(tied, lora.Options{Rank: 4, Alpha: 8, Factor: 2})
	require.EqualError(t, err, "a new adapter: both an alpha, 8, and a factor, 2, are set, but the factor replaces alpha; leave one out")
	_, err = lora.New(tied, lora.Options{Rank: 4, Factor: float32(math.Inf(1))})
	require.EqualError(t, err, "a new adapter: the factor is +Inf; it must be a finite number of at least 0")
	_, err = lora.New(tied, lora.Options{})
	require.ErrorContains(t, err, "the adapter has no tensors; set Rank")
	_, err = lora.New(tied, lora.Options{Rank: 4, Targets: []string{"attn_q"}, Ranks: map[string]int{"attn_k": 4}})
	require.EqualError(t, err, `a new adapter: "attn_k" has a rank, but is not among the targets`)
	_, err = lora.New(tied, lora.Options{Rank: 1 << 20})
	require.EqualError(t, err, "a new adapter: the rank is 1048576; it must be 0 to 65536")
}

func TestAdapterWeights(t *testing.T) {
	m := tinyModel(t, false)
	a := newAdapter(t, m, lora.Options{Rank: 4, Ranks: map[string]int{"attn_q": 8}, Alpha: 16})
	weights := a.WithScale(0.5)
	require.Len(t, weights, 14)
	require.Equal(t, float32(0.5*16/8), weights["blk.1.attn_q.weight"][0].Scale)
	require.Equal(t, float32(0.5*16/4), weights["blk.1.attn_k.weight"][0].Scale)

	plain := newAdapter(t, m, lora.Options{Rank: 4, Targets: []string{"attn_k"}})
	require.Equal(t, float32(0.5), plain.WithScale(0.5)["blk.0.attn_k.weight"][0].Scale, "alpha 0 is a factor of 1")

	joined := lora.Join(weights, plain.WithScale(2), nil)
	require.Len(t, joined, 14)
	require.Len(t, joined["blk.0.attn_q.weight"], 1)
	scales := joined["blk.0.attn_k.weight"]
	require.Equal(t, []float32{2, 2}, []float32{scales[0].Scale, scales[1].Scale})
	require.Len(t, weights["blk.0.attn_k.weight"], 1, "Join must not change what it joins")
	require.Equal(t, model.Adapters{}, lora.Join())
}

// With a factor the strength of a pair does not depend on its rank: in the graph, and in the file,
// where stock llama.cpp computes alpha/rank for each pair.
func TestFactorOfAllRanks(t *testing.T) {
	m := tinyModel(t, false)
	ranks := map[string]int{"attn_q": 64, "attn_k": 8, "ffn_up": 3}
	a := trained(t, m, lora.Options{Ranks: ranks, Factor: 2})
	for base, pairs := range a.WithScale(0.5) {
		require.Equal(t, float32(0.5*2), pairs[0].Scale, base)
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	require.NoError(t, a.Save(path, lora.SaveOptions{}))
	file := need.Value(ggml.OpenGGUF(path))(t)
	defer file.Close()
	alpha := need.Value(ggml.GGUFValue[float32](file, "adapter.lora.alpha"))(t)
	b := load(t, path, m)
	require.Len(t, b.Pairs(), 6)
	for i, p := range a.Pairs() {
		q := b.Pairs()[i]
		require.Equal(t, floats(t, p.A), floats(t, q.A))
		inFile := floats(t, q.B)
		for j, x := range floats(t, p.B) {
			require.InEpsilon(t, 2*float64(x), float64(alpha)/float64(q.Rank())*float64(inFile[j]), 1e-6, p.Base)
		}
	}

	// With equal ranks, the file contains the alpha that gives the factor.
	of := func(o lora.Options) []byte {
		require.NoError(t, trained(t, m, o).Save(path, lora.SaveOptions{}))
		return content(t, path)
	}
	require.Equal(t, of(lora.Options{Rank: 8, Alpha: 16}), of(lora.Options{Rank: 8, Factor: 2}))
}

// A new adapter does not change the model, nor does a trained one at scale 0.
func TestNoEffect(t *testing.T) {
	m := tinyModel(t, false)
	want := losses(t, m, nil)
	require.Equal(t, want, losses(t, m, newAdapter(t, m, lora.Options{Rank: 4, Alpha: 8}).WithScale(1)))
	a := trained(t, m, lora.Options{Rank: 4, Alpha: 8})
	require.Equal(t, want, losses(t, m, a.WithScale(0)))
	require.NotEqual(t, want, losses(t, m, a.WithScale(1)))
}

func TestCloseTwice(t *testing.T) {
	a := newAdapter(t, tinyModel(t, false), lora.Options{Rank: 2})
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	require.NoError(t, (*lora.Adapter)(nil).Close())
	_, err := a.Pairs()[0].A.Float32s()
	require.ErrorIs(t, err, ggml.ErrClosed)
}
