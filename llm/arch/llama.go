package arch

import "github.com/goggml/ggml"

// Llama, and models that differ from it in details.
func init() {
	llama := spec{rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, attnBias: Maybe, ffnBias: Maybe, ffnScales: true, ropeFactors: true, mixture: softMaxExperts}
	embed := llama // tokens see all others
	embed.encoder, embed.bidirectional, embed.unused, embed.keys = true, true, unusedOutput, []key{saidNotCausal}
	family(map[string]spec{
		"llama":       llama,
		"llama-embed": embed,
		"arcee":       {rope: ggml.RoPENorm, norms: normBefore, ungated: SquaredReLU, ropeFactors: true},
		"maincoder": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, qkNormAfterRoPE: true, modules: naming{rotatesNeighbours: true},
		},
		"nanbeige":       {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, ffnScales: true, ropeFactors: true, keys: []key{onceThrough}},
		"pangu-embedded": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, attnBias: Always, unused: unusedFactors},
		"seed_oss":       {rope: ggml.RoPENeoX, norms: normBefore, ffnNorm: "post_attention_norm", act: ggml.SwiGLU},
		"xverse":         {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, untied: true},
		"llama4": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, ropeFactors: true, keys: append(windowKeysOf(4, 8192), localBase), complete: llama4Window, layer: llama4Layer,
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, ByLogits: true, BeforeExperts: true, Module: "feed_forward.router"}, reads: readsWidth | readsStep,
				shared: func(c *Config) int { return c.ExpertFF }, module: "feed_forward.shared_expert",
			},
		},
	})
}

// softMaxExperts have a router whose probabilities, of the chosen experts, add up to one.
var softMaxExperts = &mixture{scales: true, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}}

// onceThrough refuses models that pass their layers several times.
var onceThrough = key{
	name: "num_loops",
	read: func(m *metadata, name string, _ *Config) {
		if n := m.size(name, 1, true); n > 1 {
			m.fault("%s.%s is %d: passing through layers several times is unsupported", m.arch, name, n)
		}
	},
	write: func(*Config) any { return nil },
}

// llama4Window sets the window, the same for all models that have one, and the settings that depend on it.
func llama4Window(c *Config) {
	if c.Window > 0 {
		c.Window, c.AttnTempScale, c.AttnTempLength, c.AttnTempOffset = 8192, 0.1, 8192, 1
	}
}

// llama4Layer has local layers with chunked windows and norms after RoPE. Every fourth layer has no
// RoPE; its queries grow with their positions instead.
func llama4Layer(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		a.Chunked = true
		c.setLocalRoPE(a)
	}
	if a.NoRoPE = c.Window > 0 && (i+1)%4 == 0; a.NoRoPE {
		return
	}
	a.Temperature = Temperature{}
	if c.Experts != 128 {
		a.QKNorm, a.NormAfterRoPE = BareHeads, true
	}
}
