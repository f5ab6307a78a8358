package arch

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// BERT and similar encoders normalise after each residual sum; the last norm is the output's.
func init() {
	family(map[string]spec{
		"bert": bert(spec{
			noRoPE: true, positions: Always, ungated: GELU, ffnBias: Maybe, classifier: &classifierHead{pooling: "cls", dense: true}, keys: []key{labels},
		}),
		"jina-bert-v2": bert(spec{
			noRoPE: true, tokenTypes: Always, ungated: GELU, act: ggml.GeGLU, fusedGateUp: Maybe, attnBias: Always, ffnBias: Maybe, qkNorm: AllHeads, qkNormThere: Maybe, qkNormBias: Maybe,
			mayHave: []Kind{"attn_norm_2", "ffn_gate"}, complete: jinaALiBi, arrange: jinaLayer, classifier: &classifierHead{pooling: "cls", dense: true, single: true},
		}),
		"jina-bert-v3": bert(spec{rope: ggml.RoPENeoX, ungated: GELU, ffnBias: Maybe}),
		"nomic-bert":   bert(spec{rope: ggml.RoPENeoX, act: ggml.SwiGLU}),
		"nomic-bert-moe": bert(spec{
			rope: ggml.RoPENeoX, ungated: GELU, ffnBias: Maybe, mixture: &mixture{router: Router{Gating: GatingSoftMax}, reads: readsScale}, keys: []key{everySecond},
		}),
	})
}

// bert completes the row of an encoder with BERT's norms and types of tokens.
func bert(s spec) spec {
	s.encoder, s.bidirectional, s.norm, s.embdNorm, s.norms = true, true, norming{layer: true, bias: Always}, weightedNorm, normSum
	s.tokenTypes, s.attnBias = max(s.tokenTypes, Maybe), max(s.attnBias, Maybe)
	if s.noRoPE {
		s.rope = ggml.RoPENeoX // files may have its keys
	}
	s.keys = append(s.keys, tokenTypes, notCausal)
	return s
}

// everySecond requires experts in every second layer; other patterns are unsupported.
var everySecond = key{
	name: "moe_every_n_layers",
	read: func(m *metadata, name string, c *Config) {
		if c.ExpertStep = m.size(name, 0, true); c.Experts > 0 && c.ExpertStep != 2 {
			m.fault("%s.%s is %d; only 2 is supported", m.arch, name, c.ExpertStep)
		}
	},
	write: func(c *Config) any {
		if c.Experts == 0 {
			return nil
		}
		return uint32(c.ExpertStep)
	},
}

// jinaALiBi sets the bias of ALiBi, for which files have no key.
func jinaALiBi(c *Config) { c.MaxALiBiBias = 8 }

// jinaLayer adds its input to attention once more if the file has a second norm.
func jinaLayer(c *Config, i int, attention, network Residual) Layer {
	if c.has("attn_norm_2") {
		attention = Residual{Part: Normed{attention}, Sum: "attn_norm_2"}
	}
	return withNetwork(gateInFile)(c, i, attention, network)
}

// Normed is a residual whose sum is normalised.
type Normed struct{ Residual Residual }

// Forward returns the norm of x and what the residual adds to it.
func (n Normed) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	return n.Residual.build(p.Part(0), t, stream{x: x}).sum(t)
}

// Residuals returns the residual.
func (n Normed) Residuals() []Residual { return []Residual{n.Residual} }
