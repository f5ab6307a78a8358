package arch

import (
	"math"
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	granite := spec{
		rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, attnBias: Maybe, ffnBias: Maybe, ropeFactors: true,
		keys: append([]key{ropeSwitch}, graniteScales...), layer: skipRoPE, scaledLater: true,
		mixture: &mixture{reads: readsSharedWidth, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "block_sparse_moe.router.layer"}, module: "shared_mlp"},
	}
	moe := granite
	moe.keys, moe.layer = graniteScales, nil
	hybrid := granite
	hybrid.keys, hybrid.perLayer, hybrid.arrange, hybrid.modules = slices.Concat(granite.keys, scanKeys, []key{scanGroups}), true, mamba2Layer, graniteHybridModules
	hybrid.unsuffixed = scanTensors
	family(map[string]spec{
		"granite":       granite,
		"granitemoe":    moe,
		"granitehybrid": hybrid,
		"granite_swa": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, attnBias: Maybe, ffnBias: Maybe, ropeFactors: true, scaledLater: true,
			keys: slices.Concat(graniteScales, windowKeys(1), []key{ropePattern}), layer: graniteSWALayer,
		},
		"graniteswitch": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, noQKVScale: true, scaledLater: true, embdNoLoRA: true,
			keys: slices.Concat(granite.keys, switchKeys), layer: switchAttention, arrange: switchLayer,
		},
		"minicpm": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, attnBias: Maybe, ffnBias: Maybe, ropeFactors: true, keys: minicpmScales,
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, Module: "block_sparse_moe.gate"}},
		},
	})
}

var graniteHybridModules = naming{matrices: map[Kind]string{
	"ffn_gate": "shared_mlp.input_linear", "ffn_up": "shared_mlp.input_linear", "ffn_down": "shared_mlp.output_linear",
	"ssm_in": "mamba.in_proj", "ssm_out": "mamba.out_proj",
}}

// ropeSwitch is the key by which granite's files say whether the model has RoPE.
var ropeSwitch = key{
	name: "rope.scaling.finetuned",
	read: func(m *metadata, name string, c *Config) {
		if !value(m, m.arch+"."+name, true, true) {
			c.NoRoPEStep = 1
		}
	},
	write: func(c *Config) any { return c.NoRoPEStep == 0 },
}

var graniteScales = []key{
	factor("logit_scale", func(c *Config) *float32 { return &c.LogitScale }, 0, true),
	factor("residual_scale", func(c *Config) *float32 { return &c.ResidualScale }, 0, false),
	factor("embedding_scale", func(c *Config) *float32 { return &c.EmbdScale }, 0, false),
	factor("attention.scale", func(c *Config) *float32 { return &c.AttnScale }, 0, false),
}

// minicpmScales are the scales in newer files; older files use the first model's.
var minicpmScales = []key{
	derived("embedding_scale", func(c *Config) *float32 { return &c.EmbdScale }, func(*Config) float32 { return 12 }),
	derived("residual_scale", func(c *Config) *float32 { return &c.ResidualScale }, func(c *Config) float32 {
		return 1.4 / float32(math.Sqrt(float64(c.Layers)))
	}),
	derived("logit_scale", func(c *Config) *float32 { return &c.LogitScale }, func(c *Config) float32 { return 256 / float32(c.Embd) }),
}

// ropePattern says which layers have RoPE.
var ropePattern = key{
	name: "attention.rope_pattern",
	read: func(m *metadata, name string, c *Config) { c.RoPELayers = m.flags(name) },
	write: func(c *Config) any {
		if c.RoPELayers == nil {
			return nil
		}
		return c.RoPELayers
	},
}

// graniteSWALayer has local layers, a sink for each head, and RoPE where the file says so.
func graniteSWALayer(c *Config, i int, a *Attention) {
	local(c, i, a)
	a.Sinks, a.NoRoPE = true, c.RoPELayers != nil && !c.RoPELayers[i]
}
