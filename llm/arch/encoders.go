package arch

import (
	"slices"

	"github.com/goggml/ggml"
)

// Encoders that normalise before their parts, as language models do.
func init() {
	family(map[string]spec{
		"modern-bert": {
			rope: ggml.RoPENeoX, encoder: true, bidirectional: true, norm: norming{layer: true}, embdNorm: weightedNorm, norms: normBefore, act: ggml.GeGLUErf, fusedGateUp: Always,
			keys:    slices.Concat(windowKeys(3), []key{localBase, hiddenAct, labels, classifierPooling, notCausal}),
			mayHave: []Kind{"attn_norm"}, complete: (*Config).firstGlobal, layer: modernAttention, arrange: modernLayer,
			classifier: &classifierHead{pooling: "mean", dense: true, gelu: true, norm: true},
		},
		"neo-bert": {
			rope: ggml.RoPENorm, encoder: true, bidirectional: true, outputNorm: "enc.output_norm", norms: normBefore, act: ggml.SwiGLU, fusedGateUp: Always,
			keys: []key{labels, notCausal}, classifier: &classifierHead{pooling: "cls", dense: true},
		},
		"eurobert": {rope: ggml.RoPENeoX, encoder: true, bidirectional: true, norms: normBefore, act: ggml.SwiGLU, keys: []key{notCausal}},
		"t5encoder": {
			rope: ggml.RoPENeoX, noRoPE: true, encoder: true, bidirectional: true, blockNames: "enc.", attnOutput: "attn_o", outputNorm: "enc.output_norm", norms: normBefore,
			ungated: ReLU, act: ggml.GeGLU, mayHave: []Kind{"ffn_gate"}, keys: []key{relativeBuckets}, complete: unscaled, arrange: withNetwork(gateInFile), unused: unusedOutput,
		},
	})
}

// hiddenAct names the activation of the feed-forward network: SiLU, or exact GELU for any other name, as in stock llama.cpp.
var hiddenAct = key{
	name: "hidden_activation",
	read: func(m *metadata, name string, c *Config) { c.HiddenAct = value(m, m.arch+"."+name, "", true) },
	write: func(c *Config) any {
		if c.HiddenAct == "" {
			return nil
		}
		return c.HiddenAct
	},
}

// modernAttention has local layers with a frequency base of their own.
func modernAttention(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		c.setLocalRoPE(a)
	}
}

// modernLayer usually has no norm before the first attention.
func modernLayer(c *Config, i int, attention, network Residual) Layer {
	if i == 0 && !c.has("attn_norm") {
		attention.Before = ""
	}
	return withNetwork(namedActivation)(c, i, attention, network)
}

// namedActivation takes the activation that the file names.
func namedActivation(c *Config, _ int, f *FeedForward) {
	if slices.Contains([]string{"silu", "swish", "swiglu"}, c.HiddenAct) {
		f.Act = ggml.SwiGLU
	}
}

// unusedOutput is the matrix of logits that files of encoders may have.
func unusedOutput(c *Config) []Weight { return []Weight{unused("output.weight", c.Embd, c.Vocab)} }

// relativeBuckets is the number of biases of each head.
var relativeBuckets = count("attention.relative_buckets_count", func(c *Config) *int { return &c.RelativeBuckets })

// unscaled leaves scores as they are.
func unscaled(c *Config) { c.AttnScale = 1 }
