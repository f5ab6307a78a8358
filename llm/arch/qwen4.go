package arch

import (
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

func init() {
	family(map[string]spec{
		"qwen4exp": {
			rope: ggml.RoPENeoX, sections: ggml.RoPEInterleaved, act: ggml.SwiGLU, qkNorm: PerHead, noOutputNorm: true,
			keys: slices.Concat(deltaKeys, qwen4Keys, indexerKeys, []key{blockSizes}, ngramKeys), layer: qwen4Attention, arrange: qwen4Layer, layerOrder: hyperOrder(lowRankStreams),
			modules: qwen4Modules, unsuffixed: []Kind{"ssm_a"}, unused: unusedQwen4,
			mixture: &mixture{
				reads: readsWidth | readsSharedWidth, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"},
				scales: true, sharedGate: true, sharedScales: true, module: "mlp.shared_expert",
			},
		},
	})
}

var qwen4Keys = []key{
	count("hyper_connection.count", func(c *Config) *int { return &c.Streams }),
	count("hyper_connection.low_rank", func(c *Config) *int { return &c.StreamRank }),
}

func unusedQwen4(c *Config) []Weight {
	list := unusedNext(c)
	for i := range c.Layers {
		if !c.isRecurrent(i) {
			list = append(list, c.unusedIndexer(i)...)
			for _, kind := range []string{"attn_q.bias", "attn_k.bias", "attn_v.bias"} {
				list = append(list, unused(blockPrefix(i)+kind))
			}
		}
	}
	return list
}

// blockSizes are the sizes of an indexer's blocks in each layer, or one for all; 0 or none: the layer has no indexer.
var blockSizes = key{
	name: "attention.compress_ratios",
	read: func(m *metadata, name string, c *Config) {
		if _, ok := m.list(m.arch + "." + name); ok {
			numbersKey(name, func(c *Config) *[]int { return &c.Ratios }, true).read(m, name, c)
		} else if all := m.size(name, 0, true); all > 0 {
			c.Ratios = slices.Repeat([]int{all}, c.Layers)
		}
	},
	write: func(c *Config) any {
		if c.Ratios == nil {
			return nil
		}
		return numbers(c.Ratios)
	},
}

// qwen4Attention has the gate in the matrix of queries, and an indexer.
func qwen4Attention(c *Config, i int, a *Attention) {
	a.Gate, a.QKVBias = QueryGate, Never
	if every := at(c.Ratios, i, 0); every > 0 {
		a.Blocks = BlockIndexer{Heads: c.IndexHeads, HeadSize: c.IndexHeadSize, Keys: c.IndexKeys, Blocks: nn.Pooling{Every: every}, RoPE: a.RoPE}
	}
}

func lowRankStreams(c *Config) StreamMixer { return LowRankStreams{c.StreamRank} }

var qwen4Modules = deltaModules.with(map[Kind]string{
	"hc_attn_down": "attn_hyper_connection.input_mix_weight_down", "hc_attn_up": "attn_hyper_connection.input_mix_weight_up", "hc_attn_inject": "attn_hyper_connection.block_inject_weight",
	"hc_ffn_down": "mlp_hyper_connection.input_mix_weight_down", "hc_ffn_up": "mlp_hyper_connection.input_mix_weight_up", "hc_ffn_inject": "mlp_hyper_connection.block_inject_weight",
	"output_hc_down": "hyper_connection_mixer.input_mix_weight_down", "output_hc_up": "hyper_connection_mixer.input_mix_weight_up",
	"ple_key": "ple.key_proj", "ple_value": "ple.value_proj",
})

// qwen4Layer has attention or a DeltaNet, and a network, between several residual streams. Some layers begin with embeddings
// of several tokens.
func qwen4Layer(c *Config, i int, attention, network Residual) Layer {
	l := deltaLayer(false)(c, i, attention, network)
	if d, ok := l[0].Part.(DeltaNet); ok {
		d.SigmoidGate = true
		l[0].Part = d
	}
	l = hyperConnected(l, c.Streams, lowRankStreams(c))
	if slices.Contains(c.NGramHash.Layers, i) {
		l = slices.Insert(l, 0, Residual{Part: NGramEmbedding{c.Streams, c.NGrams}})
	}
	return l
}
