package arch

import (
	"math"
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"dots1": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, untied: true,
			mixture: &mixture{
				router: Router{ChoiceBias: Maybe, Module: "mlp.gate"},
				reads:  readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale, module: "mlp.shared_experts",
			},
		},
		"dots3note": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, perLayer: true, ffnScales: true, outputNoLoRA: true,
			keys: slices.Concat(latentKeys, absorbedSizes, []key{nextLayersKey}, stepKeys, localLatentKeys, indexerKeys, []key{globalIndexers}), arrange: dots3Layer, unused: unusedNextSparse,
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, ChoiceBias: Always, Module: "mlp.gate"}, module: "mlp.shared_experts", scales: true, sharedScales: true,
				reads: readsWidths | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

const localKVRank = "attention.kv_lora_rank_swa"

// localLatentKeys are the sizes of latent attention in local layers.
var localLatentKeys = []key{
	count(localKVRank, func(c *Config) *int { return &c.LocalKVRank }),
	count("attention.key_length_mla_swa", func(c *Config) *int { return &c.LocalKeySizeMLA }),
	count("attention.value_length_mla_swa", func(c *Config) *int { return &c.LocalValueSizeMLA }),
	sizeInCache("attention.key_length_swa", func(c *Config) int { return c.LocalKVRank + c.RoPE.Dims }),
	sizeInCache("attention.value_length_swa", func(c *Config) int { return c.LocalKVRank }),
}

// sizeInCache is a size of local layers that follows from others.
func sizeInCache(name string, of func(c *Config) int) key {
	return key{
		name: name,
		read: func(m *metadata, name string, c *Config) {
			if n := m.size(name, of(c), true); n != of(c) {
				m.fault("%s.%s is %d; by %s it is %d", m.arch, name, n, localKVRank, of(c))
			}
		},
		write: func(c *Config) any { return uint32(of(c)) },
	}
}

// globalIndexers says that layers without a window have an indexer each, and no others.
var globalIndexers = key{
	name: indexerTypes,
	read: func(m *metadata, name string, c *Config) {
		list, ok := m.list(m.arch + "." + name)
		if !ok || list.Len() < c.Layers || c.Layers > len(c.LocalLayers) && c.LocalLayers != nil {
			m.fault("%s.%s is not a list of the layers", m.arch, name)
			return
		}
		for i := range c.Layers {
			if list.Index(i).IsZero() != c.isLocal(i) {
				m.fault("%s.%s: layer %d needs an indexer, or a window, and not both", m.arch, name, i)
			}
		}
	},
	write: func(c *Config) any { return indexerFlags(c, func(i int) bool { return !c.isLocal(i) }) },
}

// dots3Layer is latent attention with a gate for each head. Local layers have sizes and a frequency base of
// their own, others an indexer.
func dots3Layer(c *Config, i int, attention, network Residual) Layer {
	l := latentAttention(c, attention.Part.(Attention))
	l.Gate, l.GateLoRA, l.PositionNorm = HeadGate, true, true
	if local(c, i, &l.Attention) {
		l.RoPE.FreqBase = c.LocalFreqBase
		l.KVRank, l.KeySize, l.ValueSize, l.HeadSize = c.LocalKVRank, c.LocalKeySizeMLA, c.LocalValueSizeMLA, c.LocalKVRank+c.RoPE.Dims
	} else {
		l.Indexer = c.indexer(i, l.RoPE, ggml.RoPENeoX, indexEps)
	}
	l.Scale = float32(1 / math.Sqrt(float64(l.KeySize)))
	attention.Part = l
	return Layer{attention, network}
}
