package arch

import (
	"maps"
	"math"
	"slices"

	"github.com/goggml/ggml"
)

// A spec is what distinguishes one kind of model from another: data, not code.
type spec struct {
	rope   ggml.RoPEMode
	norms  norms
	qkNorm QKNorm
	act    ggml.GLU
	// fusedGateUp is a matrix ffn_up [n_embd, 2·n_ff] that holds the gate too.
	fusedGateUp bool
	// biases of attn_output and the feed-forward network; those of queries, keys and
	// values may be in any model.
	biases bool
	// ffnScales are the factors of the feed-forward network's products with their
	// biases. Stock llama.cpp ignores those of other models.
	ffnScales bool
	// keys are those that other kinds of models do not have, or mean otherwise.
	keys []key
	// ropeFactors may be in the file: one tensor, or one for short and one for long
	// contexts.
	ropeFactors bool
	// layer changes the attention of layer i from what all have; nil changes nothing.
	layer func(c *Config, i int, a *Attention)
	// complete derives what no key says, after the keys are read.
	complete func(c *Config)
	untied   bool // the output matrix is required
	// scaledLater says that transformers scales embeddings after their module.
	scaledLater bool
	// outputBias may be in the file.
	outputBias bool
	unused     []Weight // what files may have besides
	// fusedModules: transformers has queries, keys and values as one matrix, and gate and
	// up too.
	fusedModules bool
}

// norms says where the RMS norms of a layer stand, around attention and around the
// feed-forward network.
type norms int

const (
	normBefore norms = 1 << iota
	normAfter
)

var specs = map[string]spec{
	"llama":    {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, biases: true, ffnScales: true, ropeFactors: true},
	"qwen2":    {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, outputBias: true},
	"qwen3":    {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, ffnScales: true, unused: classifier},
	"mistral3": {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, biases: true, ffnScales: true, ropeFactors: true, keys: mistral3Keys, complete: mistral3Temperature},
	"smollm3":  {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, complete: smollm3Steps, layer: skipRoPE},
	"granite":  {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, biases: true, ropeFactors: true, keys: graniteKeys, layer: skipRoPE, scaledLater: true},
	"olmo2":    {rope: ggml.RoPENeoX, norms: normAfter, act: ggml.SwiGLU, qkNorm: AllHeads, untied: true, keys: windowKeys(4), layer: olmo2Layer},
	"gemma3":   {rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.GeGLU, qkNorm: PerHead, keys: gemma3Keys, complete: gemma3Scales, layer: gemma3Layer},
	"phi3":     {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, fusedGateUp: true, ropeFactors: true, fusedModules: true},
}

// layers are those of a model: attention and a feed-forward network each.
func (s spec) layers(c Config) []Layer {
	norm := func(there norms, name string) string {
		if s.norms&there == 0 {
			return ""
		}
		return name
	}
	list := make([]Layer, c.Layers)
	for i := range list {
		list[i] = Layer{
			{
				Before: norm(normBefore, "attn_norm"), After: norm(normAfter, "post_attention_norm"), Scale: c.ResidualScale,
				Part: s.attention(c, i),
			},
			{
				Before: norm(normBefore, "ffn_norm"), After: norm(normAfter, "post_ffw_norm"), Scale: c.ResidualScale, Tokenwise: true,
				Part: FeedForward{Width: c.FF, Act: s.act, FusedGateUp: s.fusedGateUp, FusedModules: s.fusedModules, Biases: s.biases, Scales: s.ffnScales},
			},
		}
	}
	return list
}

// attention is that of layer i.
func (s spec) attention(c Config, i int) Attention {
	a := Attention{
		Heads: c.Heads, KVHeads: c.KVHeads, HeadSize: c.HeadSize, Scale: c.attentionScale(), RoPE: c.RoPE, RoPEFactors: s.ropeFactors,
		Temperature: Temperature{c.AttnTempScale, c.AttnTempLength, c.AttnTempOffset},
		QKNorm:      s.qkNorm, FusedQKV: c.FusedQKV, FusedModules: s.fusedModules, OutputBias: s.biases,
	}
	a.RoPE.AttnFactor *= yarnMagnitude(c.RoPE, c.YaRNLogMul)
	if s.layer != nil {
		s.layer(&c, i, &a)
	}
	return a
}

// Architectures lists the values of general.architecture that are supported.
func Architectures() []string { return slices.Sorted(maps.Keys(specs)) }

// What is the way of one family.

// classifier is the head of a reranker, which text models carry along.
var classifier = []Weight{{Name: "cls.output.weight", Role: Unused, Optional: true}}

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

var graniteKeys = []key{
	{
		name: "rope.scaling.finetuned", // granite's way to say that there is RoPE at all
		read: func(m *metadata, name string, c *Config) {
			if !value(m, m.arch+"."+name, true, true) {
				c.NoRoPEStep = 1
			}
		},
		write: func(c *Config) any { return c.NoRoPEStep == 0 },
	},
	factor("logit_scale", func(c *Config) *float32 { return &c.LogitScale }, 0, true),
	factor("residual_scale", func(c *Config) *float32 { return &c.ResidualScale }, 0, false),
	factor("embedding_scale", func(c *Config) *float32 { return &c.EmbdScale }, 0, false),
	factor("attention.scale", func(c *Config) *float32 { return &c.AttnScale }, 0, false),
}

// Every fourth layer of SmolLM3 has no position embedding (NoPE).
func smollm3Steps(c *Config) { c.NoRoPEStep = 4 }

func skipRoPE(c *Config, i int, a *Attention) {
	a.NoRoPE = c.NoRoPEStep > 0 && (i+1)%c.NoRoPEStep == 0
}

// windowKeys are those of models in which all but each so many-th layer see a window.
func windowKeys(pattern int) []key {
	return []key{
		optional("attention.sliding_window", func(c *Config) *int { return &c.Window }, always(0)),
		withWindow(key{
			name:  "attention.sliding_window_pattern",
			read:  func(m *metadata, name string, c *Config) { c.WindowPattern = m.pattern(name, pattern) },
			write: func(c *Config) any { return uint32(c.WindowPattern) },
		}),
	}
}

// withWindow is a key that counts only where there is a window.
func withWindow(k key) key {
	return key{
		name: k.name,
		read: func(m *metadata, name string, c *Config) {
			if c.Window > 0 {
				k.read(m, name, c)
			}
		},
		write: func(c *Config) any {
			if c.Window == 0 {
				return nil
			}
			return k.write(c)
		},
	}
}

// local lets local layers see a window, and reports whether the layer is one.
func local(c *Config, i int, a *Attention) bool {
	if c.Window > 0 && c.WindowPattern > 0 && (i+1)%c.WindowPattern != 0 {
		a.Window = c.Window
	}
	return a.Window > 0
}

// olmo2Layer has local layers with a RoPE that does not reach beyond the context of its
// training. As in stock llama.cpp it has the base of all: rope.freq_base_swa says nothing.
func olmo2Layer(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		a.RoPE.FreqScale, a.RoPE.ExtFactor, a.RoPE.AttnFactor = 1, 0, 1
	}
}

var gemma3Keys = append(windowKeys(6),
	withWindow(factor(localFreqBase, func(c *Config) *float32 { return &c.LocalFreqBase }, 10000, false)),
	factor("final_logit_softcapping", func(c *Config) *float32 { return &c.LogitSoftcap }, 0, false),
)

const localFreqBase = "rope.freq_base_swa"

// gemma3Layer has local layers with a base of their own, which are not stretched.
func gemma3Layer(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		a.RoPE.FreqBase, a.RoPE.FreqScale = c.LocalFreqBase, 1
	}
}

// gemma3Scales are what the key of no file says: embeddings are scaled by the root of
// their width, and the largest model, of 62 layers, attends by that of a head's share
// of it: a whole number, as in stock llama.cpp.
func gemma3Scales(c *Config) {
	c.EmbdScale = float32(math.Sqrt(float64(c.Embd)))
	if c.Layers == 62 && c.Heads > 0 && c.Embd >= c.Heads {
		c.AttnScale = float32(1 / math.Sqrt(float64(c.Embd/c.Heads)))
	}
}
