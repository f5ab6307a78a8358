package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"gpt-oss": {
			rope: ggml.RoPENeoX, norms: normBefore, ffnNorm: "post_attention_norm", act: ggml.SwiGLU, attnBias: Always, untied: true, keys: append(windowKeys(2), localBase), layer: gptOSSLayer,
			mixture: &mixture{router: Router{Gating: GatingSoftMaxChosen, Bias: Always, Module: "mlp.router"}, reads: readsWidth, biases: Always, limit: oaiLimit, oai: true},
		},
	})
}

// gptOSSLayer has local layers, and a sink for each head.
func gptOSSLayer(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		c.setLocalRoPE(a)
	}
	a.Sinks = true
}

// oaiLimit returns the limit of gpt-oss, which no key gives.
func oaiLimit(*Config) float32 { return 7 }
