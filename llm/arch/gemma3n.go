package arch

import (
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"gemma3n": {
			rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.GeGLU, qkNorm: PerHead, keys: gemma3nKeys, complete: gemma3nSizes, layer: gemma3nAttention,
			arrange: gemma3nLayer, layerOrder: altUpLayerOrder, unusedInLayers: unusedKVOfHeads, modules: gemma3nModules,
		},
	})
}

// Constants of Gemma 3n, for which files have no keys.
const (
	laurelRank      = 64
	gemma3nEmbd     = 256 // width of each layer's embedding
	gemma3nOwnKV    = 20  // layers with their own keys and values
	gemma3nSparse   = 10  // layers with sparse feed-forward networks
	sparseDeviation = 1.6448533535003662
)

var gemma3nKeys = slices.Concat(windowKeys(5), []key{localBase, derived("final_logit_softcapping", func(c *Config) *float32 { return &c.LogitSoftcap }, constant(30))})

var gemma3nModules = naming{matrices: map[Kind]string{
	"inp_gate": "per_layer_input_gate", "proj": "per_layer_projection", "laurel_l": "laurel.linear_left", "laurel_r": "laurel.linear_right",
	"altup_predict_coef": "altup.prediction_coefs", "altup_correct_coef": "altup.correction_coefs",
}}

func gemma3nSizes(c *Config) {
	gemma4Scales(c)
	c.LayerEmbd = gemma3nEmbd
}

// gemma3nAttention has local layers with a base of their own; the last layers read keys and values of others.
func gemma3nAttention(c *Config, i int, a *Attention) {
	a.ValueNorm = true
	if local(c, i, a) {
		c.setLocalRoPE(a)
	}
	c.shareKV(i, a, gemma3nOwnKV)
}

func gemma3nLayer(c *Config, i int, attention, network Residual) Layer {
	if i < gemma3nSparse {
		f := network.Part.(FeedForward)
		f.Sparse = sparseDeviation
		network.Part = f
	}
	return Layer{{Part: AltUp{attention, network, altUpVersions, laurelRank, LayerEmbedding{c.LayerEmbd}}, Replaces: true}}
}

// unusedKVOfHeads are matrices of layers that read the keys and values of others.
func unusedKVOfHeads(c *Config) []Weight {
	keys := c.KVHeads * c.HeadSize
	return []Weight{unused("attn_k.weight", c.Embd, keys), unused("attn_v.weight", c.Embd, keys), unused("attn_k_norm.weight", c.HeadSize)}
}
