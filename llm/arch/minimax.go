package arch

import (
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

func init() {
	family(map[string]spec{
		"minimax-01": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, keys: minimax01Keys, arrange: minimax01Layer, modules: minimax01Modules,
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, Module: "block_sparse_moe.gate"}, reads: readsScale},
		},
		"minimax-m3": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, untied: true, keys: minimaxM3Keys, arrange: minimaxM3Layer,
			unused: unusedM3,
			mixture: &mixture{
				router: Router{ChoiceBias: Always, Module: "block_sparse_moe.gate"}, limit: oaiLimit, oai: true, module: "block_sparse_moe.shared_experts",
				reads: readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
		"minimax-m2": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: AllHeads, untied: true,
			mixture: &mixture{router: Router{Normalized: true, ChoiceBias: Always, Module: "block_sparse_moe.gate"}, reads: readsGating},
		},
	})
}

var minimax01Keys = []key{
	{
		name: "residual_scale",
		read: func(m *metadata, name string, c *Config) {
			if c.ResidualScale = value[float32](m, m.arch+"."+name, 1, false); c.ResidualScale == 0 {
				m.fault("%s.%s is 0", m.arch, name)
			}
		},
		write: func(c *Config) any { return c.ResidualScale },
	},
	optional("full_attention_interval", func(c *Config) *int { return &c.AttentionStep }, always(8)),
	recurrentFlags,
}

var minimaxM3Keys = slices.Concat(optionalIndexerKeys, []key{
	optional("attention.indexer.block_size", func(c *Config) *int { return &c.IndexBlock }, always(0)),
	optional("attention.indexer.local_blocks", func(c *Config) *int { return &c.IndexLocal }, always(0)),
})

func unusedM3(c *Config) (list []Weight) {
	for i := c.DenseLayers; i < c.Layers; i++ {
		list = append(list, c.unusedIndexer(i)...)
	}
	return list
}

// minimaxM3Layer has gpt-oss's activation in all networks, and an indexer in layers with experts. The number of blocks in files
// counts those that a query always sees.
func minimaxM3Layer(c *Config, i int, attention, network Residual) Layer {
	switch f := network.Part.(type) {
	case FeedForward:
		f.Limit, f.OAI = oaiLimit(c), true
		network.Part = f
	case Experts:
		f.Shared.Limit, f.Shared.OAI = oaiLimit(c), true
		network.Part = f
		a := attention.Part.(Attention)
		if every := c.IndexBlock; c.IndexKeys > 0 && every > 0 {
			a.Blocks = BlockIndexer{
				Heads: c.IndexHeads, HeadSize: c.IndexHeadSize, Keys: min(c.IndexKeys-c.IndexLocal, mostIndexKeys/every) * every,
				Blocks: nn.Pooling{Every: every, Local: c.IndexLocal}, EachKVHead: true, RoPE: a.RoPE,
			}
			attention.Part = a
		}
	}
	return Layer{attention, network}
}

// minimax01Layer adds to normalised vectors, times a factor. Recurrent layers have lightning attention, which forgets more
// slowly from layer to layer.
func minimax01Layer(c *Config, i int, attention, network Residual) Layer {
	if c.isRecurrent(i) {
		a := attention.Part.(Attention)
		attention.Part = Lightning{Heads: a.Heads, HeadSize: a.HeadSize, Slowness: float32(1 - float64(i)/float64(max(1, c.Layers-1)) + 1e-5)}
	}
	for _, r := range []*Residual{&attention, &network} {
		r.Scale, r.Normalized = 0, c.ResidualScale
	}
	return Layer{attention, network}
}

var minimax01Modules = naming{matrices: map[Kind]string{"attn_qkv": "self_attn.qkv_proj", "attn_gate": "self_attn.output_gate"}}
