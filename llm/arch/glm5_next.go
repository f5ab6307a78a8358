package arch

import (
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"glm5-next": {
			rope: ggml.RoPENorm, noRoPE: true, norms: normBefore, act: ggml.SwiGLU, untied: true, perLayer: true, outputNoLoRA: true,
			keys: slices.Concat(latentKeys, absorbedSizes, kimiKeys, sinkhornKeys, indexerKeys, glm5NextKeys), arrange: glm5NextLayer, layerOrder: hyperOrder(meanStreams),
			unsuffixed: []Kind{"ssm_a"}, unusedInLayers: unusedKimiBiases, unused: unusedNextPools,
			kept: []Kind{
				"attn_k_b", "attn_kv_a_mqa", "attn_v_b", "hc_attn_fn", "hc_ffn_fn", "indexer.attn_k", "indexer.attn_q_b", "indexer.proj",
				"indexer_compressor_ape", "indexer_compressor_gate", "ssm_f_a", "ssm_f_b", "ssm_g_a", "ssm_g_b",
			},
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, ChoiceBias: Always, Module: "mlp.gate"}, module: "mlp.shared_experts",
				reads: readsWidths | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

var glm5NextKeys = []key{
	nextLayersKey,
	factor("attention.layer_norm_epsilon", func(c *Config) *float32 { return &c.LayerNormEps }, 0, false),
	lowestDecay,
	count("attention.indexer.kpool", func(c *Config) *int { return &c.IndexPool }),
	{
		name: "attention.indexer.kpool_select_tail",
		read: func(m *metadata, name string, _ *Config) {
			if !value(m, m.arch+"."+name, true, true) {
				m.fault("%s.%s is false: queries that do not see their own pool are unsupported", m.arch, name)
			}
		},
		write: func(*Config) any { return true },
	},
	ownIndexers(allOwn),
	clampKeys[0], clampKeys[1], sameClamps,
}

// sameClamps bounds other networks as experts where a file says nothing of them.
var sameClamps = fixed(func(c *Config) {
	if c.Clamps == nil {
		c.Clamps = c.ExpertClamps
	}
})

// lowestDecay is the bound of decays; −∞ stands for none.
var lowestDecay = key{
	name: "kda.gate_lower_bound",
	read: func(m *metadata, name string, c *Config) {
		if x := value(m, m.arch+"."+name, float32(0), true); !math.IsInf(float64(x), -1) {
			c.DecayBound = x
		}
	},
	write: factor("kda.gate_lower_bound", func(c *Config) *float32 { return &c.DecayBound }, 0, false).write,
}

// glm5NextLayer has delta attention in layers without key heads, and latent attention without RoPE to pools of keys that an
// indexer chooses in others, between several residual streams. Stock llama.cpp adapts networks alone.
func glm5NextLayer(c *Config, i int, attention, network Residual) Layer {
	l := limitedLayer(c, i, kimiLayer(c, i, attention, network)[0], network)
	switch a := l[0].Part.(type) {
	case KimiDelta:
		a.Negated, a.DecayBound, a.UnitEps = true, c.DecayBound, 1e-6
		l[0].Part = a
	case LatentAttention:
		a.PlainOutput = true
		a.Indexer = Indexer{Heads: c.IndexHeads, HeadSize: c.IndexHeadSize, Keys: c.IndexKeys, Pool: c.IndexPool, Eps: c.LayerNormEps, Shared: c.indexerBack(i)}
		l[0].Part = a
	}
	return hyperConnected(l, c.Streams, sinkhornStreams(c))
}

// limitedLayer clamps gates before their activation, and the values that they multiply.
func limitedLayer(c *Config, i int, attention, network Residual) Layer {
	l := clampedLayer(c, i, attention, network)
	switch f := l[1].Part.(type) {
	case FeedForward:
		f.Limit, f.Clamp = f.Clamp, 0
		l[1].Part = f
	case Experts:
		f.Limit, f.Clamp, f.Shared.Limit, f.Shared.Clamp = f.Clamp, 0, f.Shared.Clamp, 0
		l[1].Part = f
	}
	return l
}

// indexerBack is the distance to the layer with attention whose indexer a layer uses.
func (c *Config) indexerBack(i int) (back LayersBack) {
	for at := i; at > 0 && c.OwnIndexers != nil && !c.OwnIndexers[at]; {
		for at--; at > 0 && at < len(c.KVHeadsAt) && c.KVHeadsAt[at] == 0; {
			at--
		}
		back = LayersBack(i - at)
	}
	return back
}

// unusedNextPools are the weights of layers for multi-token prediction.
func unusedNextPools(c *Config) []Weight {
	list := unusedNextSparse(c)
	for i := c.Layers; i < c.Layers+c.NextLayers; i++ {
		for _, kind := range []string{"gate", "ape"} {
			list = append(list, unused(fmt.Sprintf("%sindexer_compressor_%s.weight", blockPrefix(i), kind)))
		}
	}
	return list
}
