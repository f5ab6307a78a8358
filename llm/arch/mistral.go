package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"mistral3": {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, attnBias: Maybe, ffnBias: Maybe, ffnScales: true, ropeFactors: true, keys: mistral3Keys, complete: mistral3Temperature, mixture: softMaxExperts},
	})
}

var mistral3Keys = append(yarnBetas,
	factor("attention.temperature_scale", func(c *Config) *float32 { return &c.AttnTempScale }, 0, false),
	factor("rope.scaling.yarn_log_multiplier", func(c *Config) *float32 { return &c.YaRNLogMul }, 0, false),
)

func mistral3Temperature(c *Config) {
	if c.AttnTempScale != 0 {
		c.AttnTempLength = c.RoPE.TrainedCtx
	}
}
