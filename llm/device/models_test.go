package device_test

import (
	"math"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// configs has a small model of each architecture, with what sets it apart.
func configs() map[string]arch.Config {
	base := func(arch string, change func(c *arch.Config)) arch.Config {
		c := llmtest.TinyConfig(false)
		c.Arch = arch
		change(&c)
		return c
	}
	neox := func(c *arch.Config) { c.RoPE.Mode = ggml.RoPENeoX }
	windows := func(c *arch.Config) {
		neox(c)
		c.Window, c.WindowPattern, c.LocalFreqBase = 8, 2, 10000
	}
	list := []arch.Config{
		base("llama", func(c *arch.Config) {}),
		base("qwen2", neox),
		base("qwen3", neox),
		base("mistral3", func(c *arch.Config) {
			c.RoPE.ExtFactor, c.RoPE.FreqScale, c.RoPE.TrainedCtx = 1, 0.25, 16
			c.AttnTempScale, c.AttnTempLength = 0.1, 16
		}),
		base("smollm3", func(c *arch.Config) { c.Layers, c.NoRoPEStep = 4, 4 }),
		base("granite", func(c *arch.Config) {
			c.EmbdScale, c.ResidualScale, c.AttnScale, c.LogitScale = 3, 0.5, 0.2, 4
		}),
		base("olmo2", windows),
		base("gemma3", func(c *arch.Config) {
			windows(c)
			c.Tied, c.EmbdScale, c.LogitSoftcap = true, float32(math.Sqrt(float64(c.Embd))), 30
		}),
		base("phi3", func(c *arch.Config) {
			neox(c)
			c.FusedQKV = true
		}),
	}
	byName := map[string]arch.Config{}
	for _, c := range list {
		byName[c.Arch] = c
	}
	return byName
}

// each runs a test for a model of each architecture.
func each(t *testing.T, f func(t *testing.T, m *model.Model)) {
	for name, c := range configs() {
		t.Run(name, func(t *testing.T) { f(t, llmtest.TinyModel(t, c, ggml.F32)) })
	}
}
