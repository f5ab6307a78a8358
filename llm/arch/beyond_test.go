package arch

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// A config that no file could have is made of nothing, whatever is asked of it.
func TestConfigBeyondReason(t *testing.T) {
	valid := Config{
		Arch: "llama", Vocab: 96, Context: 64, Embd: 64, FF: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
	require.NoError(t, valid.Validate())
	for name, change := range map[string]func(c *Config){
		"nothing":      func(c *Config) { *c = Config{} },
		"2³¹ layers":   func(c *Config) { c.Layers = 1 << 31 },
		"no heads":     func(c *Config) { c.Heads = 0 },
		"no KV heads":  func(c *Config) { c.KVHeads = 0 },
		"a large one":  func(c *Config) { c.Vocab = math.MaxInt },
		"a negative":   func(c *Config) { c.Embd = -1 },
		"no pattern":   func(c *Config) { c.Arch, c.Window = "gemma3", 8 },
		"no number":    func(c *Config) { c.AttnScale = float32(math.NaN()) },
		"unknown arch": func(c *Config) { c.Arch = "nothing" },
	} {
		t.Run(name, func(t *testing.T) {
			c := valid
			change(&c)
			require.ErrorIs(t, c.Validate(), ErrUnsupported)
			a, err := Resolve(c)
			require.ErrorIs(t, err, ErrUnsupported)
			require.Nil(t, a)
		})
	}
}

// One layer whose tokens see those after them makes a model that is not causal, and keeps nothing;
// with a window or ALiBi there is no such attention.
func TestBidirectionalAttention(t *testing.T) {
	valid := Config{
		Arch: "llama", Vocab: 96, Context: 64, Embd: 64, FF: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
	with := func(change func(a *Attention)) (*Architecture, error) {
		layers := specs["llama"].layers(valid)
		a := layers[1][0].Part.(Attention)
		change(&a)
		layers[1][0].Part = a
		return New(valid, layers)
	}
	a := need.Value(with(func(*Attention) {}))(t)
	require.True(t, a.IsCausal())
	require.NoError(t, a.CheckCausal("it ends."))
	a = need.Value(with(func(a *Attention) { a.Bidirectional = true }))(t)
	require.False(t, a.IsCausal())
	require.ErrorIs(t, a.CheckCausal("it ends."), ErrNotCausal)
	_, err := with(func(a *Attention) { a.Bidirectional, a.Window, a.Chunked = true, 4, true })
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "bidirectional attention cannot be split into chunks of positions")
}
