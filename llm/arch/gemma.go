package arch

import (
	"math"
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"gemma": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.GeGLU, complete: gemmaEmbedding},
		"gemma2": {
			rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.GeGLU,
			keys: gemma2Keys, complete: gemma2Scales, layer: gemma2Layer,
		},
		"gemma3": {
			rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.GeGLU, qkNorm: PerHead,
			keys: gemma3Keys, complete: gemma3Scales, layer: gemma3Layer,
		},
	})
}

// gemmaEmbedding scales embeddings by the root of their width; files have no key for it.
func gemmaEmbedding(c *Config) { c.EmbdScale = float32(math.Sqrt(float64(c.Embd))) }

var gemma2Keys = append(slices.Concat([]key{
	factor("attn_logit_softcapping", func(c *Config) *float32 { return &c.AttnSoftcap }, 50, true),
	factor("final_logit_softcapping", func(c *Config) *float32 { return &c.LogitSoftcap }, 30, true),
}, windowKeysOf(2, 4096)),
	withWindow(derived(localFreqBase, func(c *Config) *float32 { return &c.LocalFreqBase }, func(c *Config) float32 { return c.RoPE.FreqBase })),
)

// gemma2Layer has local layers, whose RoPE may have a base of its own.
func gemma2Layer(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		c.setLocalRoPE(a)
	}
}

// gemma2Scales scales the scores of the largest model, of 46 layers, by a head's share of the width.
func gemma2Scales(c *Config) {
	gemmaEmbedding(c)
	c.scaleByShare(46)
}

// scaleByShare sets the scale of a model with a number of layers to 1/√(width/heads), with the
// quotient rounded down as in stock llama.cpp.
func (c *Config) scaleByShare(layers int) {
	if c.Layers == layers && c.Heads > 0 && c.Embd >= c.Heads {
		c.AttnScale = float32(1 / math.Sqrt(float64(c.Embd/c.Heads)))
	}
}

var gemma3Keys = append(windowKeys(6),
	withWindow(factor(localFreqBase, func(c *Config) *float32 { return &c.LocalFreqBase }, 10000, false)),
	factor("final_logit_softcapping", func(c *Config) *float32 { return &c.LogitSoftcap }, 0, false),
)

const localFreqBase = "rope.freq_base_swa"

// gemma3Layer gives layers with a window the RoPE base of [localFreqBase], and no scaling of positions.
func gemma3Layer(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		a.RoPE.FreqBase, a.RoPE.FreqScale = c.LocalFreqBase, 1
	}
}

// gemma3Scales scales embeddings, and the attention scores of the largest model, which has 62 layers.
func gemma3Scales(c *Config) {
	gemmaEmbedding(c)
	c.scaleByShare(62)
}
