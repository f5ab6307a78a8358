package arch

import (
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

func init() {
	family(map[string]spec{
		"deepseek4": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, untied: true, outputNoLoRA: true,
			keys: slices.Concat(sinkhornKeys, indexerKeys, deepseek4Keys), arrange: deepseek4Layer, layerOrder: hyperOrder(streamGates), unused: unusedDeepseek4,
			mixture: &mixture{
				router: Router{Gating: GatingSqrtSoftplus, ChoiceBias: Always, Module: "mlp.gate"}, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedCount | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

var deepseek4Keys = []key{
	nextLayersKey,
	count("attention.q_lora_rank", func(c *Config) *int { return &c.QRank }),
	count("attention.sliding_window", func(c *Config) *int { return &c.Window }),
	fixed(func(c *Config) { c.WindowPattern = c.Layers + 1 }), // all layers see a window
	count("attention.output_group_count", func(c *Config) *int { return &c.OutGroups }),
	count("attention.output_lora_rank", func(c *Config) *int { return &c.OutRank }),
	factor("attention.compress_rope_freq_base", func(c *Config) *float32 { return &c.CompressedFreqBase }, 0, true),
	{
		name: "attention.compress_ratios",
		read: func(m *metadata, name string, c *Config) {
			numbersKey(name, func(c *Config) *[]int { return &c.Ratios }, true).read(m, name, c)
			if c.Ratios == nil {
				m.fault("%s.%s is missing or no list", m.arch, name)
			}
		},
		write: func(c *Config) any { return numbers(c.Ratios) },
	},
	size("hash_layer_count", func(c *Config) *int { return &c.HashLayers }),
	clampKeys[0], clampKeys[1], sameClamps,
}

// deepseek4Layer has attention to a window and to compressed keys, and experts, between several residual streams. If a
// compressed key stands for few tokens, it overlaps with the key before, and an indexer chooses among the keys. In the first
// layers a table has the experts of each token.
func deepseek4Layer(c *Config, i int, attention, network Residual) Layer {
	const chosenRatio = 4
	a := CompressedAttention{Attention: attention.Part.(Attention), QRank: c.QRank, Groups: c.OutGroups, OutRank: c.OutRank}
	a.Window, a.Sinks = c.Window, true
	a.RoPE.AttnFactor = 1
	switch ratio := at(c.Ratios, i, 0); ratio {
	case 0:
		a.RoPE.FreqScale, a.RoPE.ExtFactor = 1, 0
	default:
		a.Compressed = nn.Pooling{Every: ratio, Overlaps: ratio == chosenRatio}
		a.RoPE.FreqBase = c.CompressedFreqBase
		if a.RoPE.ExtFactor != 0 { // vectors keep their length
			a.RoPE.AttnFactor = float32(1 / (1 + 0.1*math.Log(float64(1/a.RoPE.FreqScale))))
		}
		if ratio == chosenRatio {
			a.Indexer = Indexer{Heads: c.IndexHeads, HeadSize: c.IndexHeadSize, Keys: min(c.IndexKeys, math.MaxInt32/ratio) * ratio, RoPE: a.RoPE}
		}
	}
	attention.Part = a
	if e := network.Part.(Experts); i < c.HashLayers {
		e.Router.ByToken, e.Router.ChoiceBias = true, Never
		network.Part = e
	}
	return hyperConnected(limitedLayer(c, i, attention, network), c.Streams, sinkhornStreams(c))
}

// unusedDeepseek4 are the biases of experts for images, and the weights of layers for multi-token prediction.
func unusedDeepseek4(c *Config) []Weight {
	list := unusedNextLayers(c, "attn_norm", "attn_sinks", "attn_q_a", "attn_q_a_norm", "attn_q_b", "attn_kv", "attn_kv_a_norm", "attn_output_a", "attn_output_b", "ffn_norm",
		"hc_attn_fn", "hc_attn_base", "hc_attn_scale", "hc_ffn_fn", "hc_ffn_base", "hc_ffn_scale")
	for i := range c.Layers + c.NextLayers {
		list = append(list, unused(fmt.Sprintf("%sexp_probs_b_vl.bias", blockPrefix(i)), c.Experts))
	}
	for i := c.Layers; i < c.Layers+c.NextLayers; i++ {
		list = append(list, unused(blockPrefix(i)+"exp_probs_b.bias"))
	}
	return list
}
