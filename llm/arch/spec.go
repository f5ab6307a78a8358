package arch

import (
	"maps"
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
	mixture      *mixture // of experts; nil where models have none
}

// norms says where the RMS norms of a layer stand, around attention and around the
// feed-forward network.
type norms int

const (
	normBefore norms = 1 << iota
	normAfter
)

// specs has the row of each architecture. Those of a family, and what is odd in it, are in a
// file of its name.
var specs = map[string]spec{}

// family adds rows.
func family(rows map[string]spec) { maps.Copy(specs, rows) }

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
		ffn := Residual{
			Before: norm(normBefore, "ffn_norm"), After: norm(normAfter, "post_ffw_norm"), Scale: c.ResidualScale, Tokenwise: true,
			Part: FeedForward{Width: c.FF, Act: s.act, FusedGateUp: s.fusedGateUp, FusedModules: s.fusedModules, Biases: s.biases, Scales: s.ffnScales},
		}
		if experts, ok := s.expertsOf(c, i); ok {
			ffn.Part, ffn.Tokenwise = experts, false // in chunks each expert would be read more than once
		}
		list[i] = Layer{
			{
				Before: norm(normBefore, "attn_norm"), After: norm(normAfter, "post_attention_norm"), Scale: c.ResidualScale,
				Part: s.attention(c, i),
			},
			ffn,
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

// skipRoPE leaves each so many-th layer without position embedding (NoPE).
func skipRoPE(c *Config, i int, a *Attention) {
	a.NoRoPE = c.NoRoPEStep > 0 && (i+1)%c.NoRoPEStep == 0
}
