package refmodel

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/refmath"
)

// variants have what each architecture adds.
var variants = map[string]struct {
	tied     bool
	change   func(p *Params)
	optional []string
}{
	"llama": {
		optional: []string{"rope_freqs.weight", "attn_q.bias", "attn_output.bias", "ffn_up.bias", "ffn_down.bias",
			"attn_k.scale", "attn_output.scale", "ffn_gate.scale", "ffn_up.scale", "ffn_down.scale", "output.scale"},
	},
	"qwen2": {true, func(p *Params) { p.RoPE.NeoX = true }, []string{"attn_k.bias", "output.bias"}},
	"qwen3": {change: func(p *Params) { p.RoPE.NeoX = true }},
	"mistral3": {change: func(p *Params) {
		p.RoPE = refmath.RoPE{FreqScale: 0.25, ExtFactor: 1, AttnFactor: 0.75, BetaFast: 4, BetaSlow: 0.5, CtxOrig: 8}
		p.Temperature = func(position int) float64 { return 1 + 0.5*float64(position/2) }
	}},
	"smollm3": {true, func(p *Params) { p.NoRoPE = []bool{false, true} }, nil},
	"granite": {change: func(p *Params) {
		p.EmbdScale, p.ResidualScale, p.AttnScale, p.LogitDivisor = 3, 0.25, 0.125, 0.5
	}},
	"olmo2": {change: func(p *Params) { p.Windows, p.RoPE.NeoX, p.RoPE.FreqScale = []int{2, 0}, true, 0.5 }},
	"gemma3": {true, func(p *Params) {
		p.Windows, p.RoPE.FreqBase, p.LocalRoPE.FreqBase = []int{0, 3}, 1000, 10
		p.EmbdScale, p.LogitSoftcap = math.Sqrt(6), 1.5
	}, nil},
	"phi3": {change: func(p *Params) { p.LongRoPE = true }, optional: []string{"rope_factors_short.weight", "rope_factors_long.weight"}},
}

func newVariant(t *testing.T, arch string) *Model {
	t.Helper()
	v := variants[arch]
	p := Params{Arch: arch, Vocab: 11, Embd: 6, FF: 8, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 4, RMSEps: 1e-5}
	if v.change != nil {
		v.change(&p)
	}
	m, err := New(p, RandomWeights(p, v.tied, 3, v.optional...))
	require.NoError(t, err)
	require.NoError(t, m.AddRandomLoRA(2, 0.5, 6))
	return m
}

func TestArchitecturesAgainstCentralDifferences(t *testing.T) {
	require.Equal(t, Architectures(), slices.Sorted(maps.Keys(variants)))
	for arch := range variants {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			m := newVariant(t, arch)
			requireCentralDifferences(t, m, append(m.LoRANames(), m.WeightNames()...))
		})
	}
}

// Each parameter of an architecture counts.
func TestParametersCount(t *testing.T) {
	for name, c := range map[string]struct {
		arch   string
		change func(p *Params)
	}{
		"temperature":    {"mistral3", func(p *Params) { p.Temperature = nil }},
		"no RoPE":        {"smollm3", func(p *Params) { p.NoRoPE = nil }},
		"embeddings":     {"granite", func(p *Params) { p.EmbdScale = 1 }},
		"residuals":      {"granite", func(p *Params) { p.ResidualScale = 1 }},
		"attention":      {"granite", func(p *Params) { p.AttnScale = 0.5 }},
		"logits":         {"granite", func(p *Params) { p.LogitDivisor = 1 }},
		"windows":        {"olmo2", func(p *Params) { p.Windows = nil }},
		"local RoPE":     {"gemma3", func(p *Params) { p.LocalRoPE = p.RoPE }},
		"softcap":        {"gemma3", func(p *Params) { p.LogitSoftcap = 0 }},
		"factors":        {"phi3", func(p *Params) { p.LongRoPE = false }},
		"YaRN's factor":  {"mistral3", func(p *Params) { p.RoPE.AttnFactor = 1 }},
		"activation":     {"gemma3", func(p *Params) { p.Arch = "qwen3" }},
		"pairs of RoPE":  {"qwen3", func(p *Params) { p.RoPE.NeoX = false }},
		"size of window": {"olmo2", func(p *Params) { p.Windows = []int{3, 0} }},
	} {
		m := newVariant(t, c.arch)
		before, err := m.Loss(tinyBatch()...)
		require.NoError(t, err)
		c.change(&m.Params)
		after, err := m.Loss(tinyBatch()...)
		require.NoError(t, err)
		require.Greater(t, math.Abs(after-before), 1e-6, name)
	}
}

// A window as long as the sequence is none, and one of a single key sees itself alone.
func TestWindows(t *testing.T) {
	tokens := []int32{1, 5, 3, 0}
	logits := func(windows ...int) []float64 {
		m := newVariant(t, "olmo2")
		m.Windows, m.RoPE = windows, m.LocalRoPE
		rows, err := m.Logits(tokens)
		require.NoError(t, err)
		return flatten(rows)
	}
	require.Equal(t, logits(0, 0), logits(4, 5))
	require.NotEqual(t, logits(0, 0), logits(3, 5))
	alone, err := newVariant(t, "olmo2").Logits([]int32{1})
	require.NoError(t, err)
	require.InDeltaSlice(t, alone[0], logits(1, 1)[:11], 1e-12)
}
