package arch

import (
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	deepseek2 := spec{
		rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, keys: slices.Concat(latentKeys, mlaSizes, deepseek2Keys), arrange: deepseek2Layer(true), outputNoLoRA: true,
		mixture: &mixture{
			router: Router{Gating: GatingSoftMax, ChoiceBias: Maybe, Module: "mlp.gate"}, module: "mlp.shared_experts",
			reads: readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
		},
	}
	mistral4 := deepseek2
	mistral4.arrange = deepseek2Layer(false)
	family(map[string]spec{
		"deepseek": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, untied: true,
			mixture: &mixture{
				router: Router{Gating: GatingSoftMax, Module: "mlp.gate"}, reads: readsWidth | readsSharedCount | readsDense | readsScale, module: "mlp.shared_experts",
			},
		},
		"deepseek2": deepseek2,
		"deepseek32": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, ffnScales: true, outputNoLoRA: true,
			keys: slices.Concat(latentKeys, absorbedSizes, indexerKeys, []key{yarnLogMultiplier, nextLayersKey}), arrange: sparseLayer(ggml.RoPENeoX, indexEps), unused: unusedNextSparse,
			mixture: &mixture{
				router: Router{ChoiceBias: Maybe, Module: "mlp.gate"}, module: "mlp.shared_experts", scales: true, sharedScales: true,
				reads: readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
		"mistral4": mistral4,
		"deepseek2-ocr": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, keys: []key{noImageWindow},
			mixture: &mixture{
				router: Router{Gating: GatingSoftMax, ChoiceBias: Maybe, Module: "mlp.gate"}, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

// noImageWindow refuses models whose queries see a window, and all of the image.
var noImageWindow = key{
	name: "attention.sliding_window",
	read: func(m *metadata, name string, _ *Config) {
		if n := m.size(name, 0, true); n > 0 {
			m.fault("%s.%s is %d: windows beside an image are unsupported", m.arch, name, n)
		}
	},
	write: func(*Config) any { return nil },
}

var yarnLogMultiplier = factor("rope.scaling.yarn_log_multiplier", func(c *Config) *float32 { return &c.YaRNLogMul }, 0, false)

var deepseek2Keys = []key{
	yarnLogMultiplier,
	factor("attention.temperature_scale", func(c *Config) *float32 { return &c.AttnTempScale }, 0, false),
	optional("attention.temperature_length", func(c *Config) *int { return &c.AttnTempLength }, always(0)),
	{
		name: "expert_gating_func", // in older files of GLM, known by its size
		read: func(m *metadata, name string, c *Config) {
			if m.size(name, 0, true) == 0 && (c.Layers == 47 || c.Layers == 48) && m.numTokens() == 154880 {
				c.Gating = GatingSigmoid
			}
		},
		write: func(*Config) any { return nil },
	},
}

// deepseek2Layer has scores that YaRN scales, see [LatentAttention.scaleYaRN]. Queries of the smallest
// models, known by their size, have no rank.
func deepseek2Layer(sameMagnitude bool) func(c *Config, i int, attention, network Residual) Layer {
	return func(c *Config, _ int, attention, network Residual) Layer {
		l := latentAttention(c, attention.Part.(Attention))
		l.scaleYaRN(c, sameMagnitude)
		if c.Layers == 26 || c.Layers == 27 || c.Layers == 48 && c.Vocab == 128256 {
			l.QRank = 0
		}
		attention.Part = l
		return Layer{attention, network}
	}
}

// sparseLayer is attention to latent vectors of the keys that an indexer chooses, whose RoPE has a mode of its own.
func sparseLayer(mode ggml.RoPEMode, eps float32) func(c *Config, i int, attention, network Residual) Layer {
	return func(c *Config, i int, attention, network Residual) Layer {
		l := latentAttention(c, attention.Part.(Attention))
		l.scaleYaRN(c, false)
		l.Indexer = c.indexer(i, l.RoPE, mode, eps)
		attention.Part = l
		return Layer{attention, network}
	}
}

// unusedNextSparse are the weights of layers for multi-token prediction, whose attention is to latent vectors.
func unusedNextSparse(c *Config) []Weight {
	list := unusedNextLayers(c, "attn_norm", "attn_q_a", "attn_q_a_norm", "attn_q_b", "attn_kv_a_mqa", "attn_kv_a_norm", "attn_k_b", "attn_v_b", "attn_k_norm", "attn_gate", "attn_output",
		"indexer.attn_k", "indexer.attn_q_b", "indexer.k_norm", "indexer.proj", "ffn_norm")
	for i := c.Layers; i < c.Layers+c.NextLayers; i++ {
		list = append(list, unused(blockPrefix(i)+"indexer.k_norm.bias"), unused(blockPrefix(i)+"exp_probs_b.bias"))
	}
	return list
}
