package arch

import "github.com/goggml/ggml"

// Llama, and others that are llamas but for a detail.
func init() {
	family(map[string]spec{
		"llama": {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, attnBias: Maybe, ffnBias: Maybe, ffnScales: true, ropeFactors: true, mixture: softMaxExperts},
		"arcee": {rope: ggml.RoPENorm, norms: normBefore, ungated: SquaredReLU, ropeFactors: true},
		"maincoder": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, qkNormAfterRoPE: true, modules: naming{rotatesNeighbours: true},
		},
		"nanbeige":       {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, ffnScales: true, ropeFactors: true, keys: []key{onceThrough}},
		"pangu-embedded": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, attnBias: Always, unused: unusedFactors},
		"seed_oss":       {rope: ggml.RoPENeoX, norms: normBefore, ffnNorm: "post_attention_norm", act: ggml.SwiGLU},
		"xverse":         {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, untied: true},
	})
}

// softMaxExperts have a router whose probabilities, of the chosen experts, add up to one.
var softMaxExperts = &mixture{scales: true, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}}

// onceThrough refuses models that pass their layers several times.
var onceThrough = key{
	name: "num_loops",
	read: func(m *metadata, name string, _ *Config) {
		if n := m.size(name, 1, true); n > 1 {
			m.fault("%s.%s is %d: layers that are passed several times are unsupported", m.arch, name, n)
		}
	},
	write: func(*Config) any { return nil },
}
