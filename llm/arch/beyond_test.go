package arch_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
)

// A config that no file could have is made of nothing, whatever is asked of it.
func TestConfigBeyondReason(t *testing.T) {
	valid := arch.Config{
		Arch: "llama", Vocab: 96, Context: 64, Embd: 64, FF: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
	require.NoError(t, valid.Validate())
	for name, change := range map[string]func(c *arch.Config){
		"nothing":      func(c *arch.Config) { *c = arch.Config{} },
		"2³¹ layers":   func(c *arch.Config) { c.Layers = 1 << 31 },
		"no heads":     func(c *arch.Config) { c.Heads = 0 },
		"no KV heads":  func(c *arch.Config) { c.KVHeads = 0 },
		"a large one":  func(c *arch.Config) { c.Vocab = math.MaxInt },
		"a negative":   func(c *arch.Config) { c.Embd = -1 },
		"no pattern":   func(c *arch.Config) { c.Arch, c.Window = "gemma3", 8 },
		"no number":    func(c *arch.Config) { c.AttnScale = float32(math.NaN()) },
		"unknown arch": func(c *arch.Config) { c.Arch = "nothing" },
	} {
		t.Run(name, func(t *testing.T) {
			c := valid
			change(&c)
			require.ErrorIs(t, c.Validate(), arch.ErrUnsupported)
			a, err := arch.Resolve(c)
			require.ErrorIs(t, err, arch.ErrUnsupported)
			require.Nil(t, a)
		})
	}
}

// One layer whose tokens see those after them makes a model that is not causal, and keeps nothing;
// with a window or ALiBi there is no such attention.
func TestBidirectionalAttention(t *testing.T) {
	valid := arch.Config{
		Arch: "llama", Vocab: 96, Context: 64, Embd: 64, FF: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
	with := func(change func(a *arch.Attention)) (*arch.Architecture, error) {
		layers := need.Value(arch.Resolve(valid))(t).Layers()
		a := layers[1][0].Part.(arch.Attention)
		change(&a)
		layers[1][0].Part = a
		return arch.New(valid, layers)
	}
	a := need.Value(with(func(*arch.Attention) {}))(t)
	require.True(t, a.IsCausal())
	require.NoError(t, a.CheckCausal("it ends."))
	a = need.Value(with(func(a *arch.Attention) { a.Bidirectional = true }))(t)
	require.False(t, a.IsCausal())
	require.ErrorIs(t, a.CheckCausal("it ends."), arch.ErrNotCausal)
	_, err := with(func(a *arch.Attention) { a.Bidirectional, a.Window, a.Chunked = true, 4, true })
	require.ErrorIs(t, err, arch.ErrUnsupported)
	require.ErrorContains(t, err, "bidirectional attention cannot be split into chunks of positions")
}
