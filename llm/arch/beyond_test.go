package arch

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
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
