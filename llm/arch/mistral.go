package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"mistral3": {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, biases: true, ffnScales: true, ropeFactors: true, keys: mistral3Keys, complete: mistral3Temperature, mixture: &mixture{scales: true, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}}},
	})
}

var mistral3Keys = []key{
	factor("attention.temperature_scale", func(c *Config) *float32 { return &c.AttnTempScale }, 0, false),
	factor("rope.scaling.yarn_beta_fast", func(c *Config) *float32 { return &c.RoPE.BetaFast }, yarnBetaFast, false),
	factor("rope.scaling.yarn_beta_slow", func(c *Config) *float32 { return &c.RoPE.BetaSlow }, yarnBetaSlow, false),
	factor("rope.scaling.yarn_log_multiplier", func(c *Config) *float32 { return &c.YaRNLogMul }, 0, false),
}

func mistral3Temperature(c *Config) {
	if c.AttnTempScale != 0 {
		c.AttnTempLength = c.RoPE.TrainedCtx
	}
}
