package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"k2-horizon": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: HeadGroups, qkNormThere: Maybe, keys: k2Keys, layer: k2Layer},
	})
}

var k2Keys = append(yarnBetas, optional("attention.group_norm_groups", func(c *Config) *int { return &c.NormGroups }, always(0)))

func k2Layer(_ *Config, _ int, a *Attention) { a.Gate = Softplus2Gate }
