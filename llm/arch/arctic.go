package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"arctic": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, arrange: arcticLayer,
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, Module: "block_sparse_moe.gate"}}, modules: arcticModules,
		},
	})
}

var arcticModules = naming{matrices: map[Kind]string{
	"ffn_gate": "residual_mlp.w1", "ffn_up": "residual_mlp.w3", "ffn_down": "residual_mlp.w2",
}}

// arcticLayer has experts that see what the layer sees, beside attention and a network.
func arcticLayer(c *Config, _ int, attention, experts Residual) Layer {
	network := experts
	network.Part, network.Tokenwise = FeedForward{Width: c.Embd, Act: ggml.SwiGLU}, true
	experts.Before = "ffn_norm_exps"
	return Layer{{Part: Parallel{{Part: Stack{attention, network}}, experts}}}
}
