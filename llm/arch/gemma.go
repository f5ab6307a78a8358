package arch

import (
	"math"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"gemma3": {rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.GeGLU, qkNorm: PerHead, keys: gemma3Keys, complete: gemma3Scales, layer: gemma3Layer},
	})
}

var gemma3Keys = append(windowKeys(6),
	withWindow(factor(localFreqBase, func(c *Config) *float32 { return &c.LocalFreqBase }, 10000, false)),
	factor("final_logit_softcapping", func(c *Config) *float32 { return &c.LogitSoftcap }, 0, false),
)

const localFreqBase = "rope.freq_base_swa"

// gemma3Layer has local layers with a base of their own, which are not stretched.
func gemma3Layer(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		a.RoPE.FreqBase, a.RoPE.FreqScale = c.LocalFreqBase, 1
	}
}

// gemma3Scales are what the key of no file says: embeddings are scaled by the root of
// their width, and the largest model, of 62 layers, attends by that of a head's share
// of it: a whole number, as in stock llama.cpp.
func gemma3Scales(c *Config) {
	c.EmbdScale = float32(math.Sqrt(float64(c.Embd)))
	if c.Layers == 62 && c.Heads > 0 && c.Embd >= c.Heads {
		c.AttnScale = float32(1 / math.Sqrt(float64(c.Embd/c.Heads)))
	}
}
