package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"mellum": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, untied: true, keys: append(windowKeys(4), localBase), layer: mellumLayer,
			mixture: &mixture{scales: true, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}, reads: readsWidth | readsGating | readsNormalized},
		},
	})
}

// mellumLayer has local layers with a base of their own, which are not stretched.
func mellumLayer(c *Config, i int, a *Attention) {
	if olmo2Layer(c, i, a); a.Window > 0 {
		a.RoPE.FreqBase = c.LocalFreqBase
	}
}
