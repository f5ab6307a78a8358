package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"mimo2": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, keys: append(windowKeys(4), withWindow(factor(localFreqBase, func(c *Config) *float32 { return &c.LocalFreqBase }, 10000, false))), layer: mimo2Layer, noQKVScale: true, unusedInLayers: mimoUnused,
			mixture: &mixture{router: Router{Gating: GatingSigmoid, Normalized: true, ChoiceBias: Maybe, Module: "mlp.gate"}, reads: readsWidth},
		},
	})
}

// mimo2Layer has local layers with a base of their own, which are not stretched, and a sink for each
// head.
func mimo2Layer(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		a.RoPE.FreqBase, a.RoPE.FreqScale = c.LocalFreqBase, 1
	}
	a.Sinks, a.QKVBias = true, Never
}

// mimoUnused has biases of queries, keys and values, too.
func mimoUnused(c *Config) []Weight {
	return append(unusedNetwork(c),
		unused("attn_q.bias", c.Heads*c.HeadSize), unused("attn_k.bias", c.KVHeads*c.HeadSize), unused("attn_v.bias", c.KVHeads*c.HeadSize))
}
