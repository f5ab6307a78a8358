package arch

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

func init() {
	family(map[string]spec{
		"talkie": {
			rope: ggml.RoPENeoX, embdNorm: bareNorm, norm: norming{bare: true}, norms: normBefore, act: ggml.SwiGLU, qkNorm: QueryGains, qkNormAfterRoPE: true, untied: true, ffnDownScale: true,
			logitsTimesScale: true, keys: []key{factor("logit_scale", func(c *Config) *float32 { return &c.LogitScale }, 0, true)}, arrange: talkieLayer,
		},
	})
}

// talkieLayer adds the embedding once more.
func talkieLayer(_ *Config, _ int, attention, network Residual) Layer {
	return Layer{attention, network, {Part: EmbeddingSkip{}}}
}

// EmbeddingSkip is the input of the first layer, times a factor.
type EmbeddingSkip struct{}

// String describes the part.
func (EmbeddingSkip) String() string { return "the embedding added to each layer" }

// Forward returns as many tokens as x has.
func (EmbeddingSkip) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	skip := t.Reused(lastOf(t, p.beside.embedded, x))
	return t.MulWeight(skip, p.Weight(Weight{Kind: "layer_output_scale", Shape: []int64{1}, Role: Norm}))
}
