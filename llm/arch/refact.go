package arch

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

func init() {
	family(map[string]spec{
		"refact": {
			noRoPE: true, norms: normBefore, act: ggml.SwiGLU, complete: alibi8, unused: unusedFactors, unusedInLayers: refactUnused,
			arrange: refactLayer, mixture: &mixture{router: Router{Gating: GatingSoftMax}},
		},
	})
}

// unusedBiases are some that stock llama.cpp reads alone.
func unusedBiases(c *Config) []Weight {
	return []Weight{
		unused("attn_output.bias", c.Embd), unused("ffn_gate.bias", c.FF), unused("ffn_up.bias", c.FF), unused("ffn_down.bias", c.Embd),
	}
}

// refactUnused are biases, and experts, that stock llama.cpp reads alone.
func refactUnused(c *Config) []Weight {
	if c.Experts == 0 {
		return unusedBiases(c)
	}
	return append(unusedBiases(c)[:1], unusedExperts(c)...)
}

// refactLayer replaces experts by the activation of their input, as stock llama.cpp does.
func refactLayer(_ *Config, _ int, attention, network Residual) Layer {
	if _, ok := network.Part.(Experts); ok {
		network.Part = activationAlone{}
	}
	return Layer{attention, network}
}

// activationAlone is SiLU in the place of a network.
type activationAlone struct{}

// String describes the part.
func (activationAlone) String() string { return "an activation in place of a network" }

// Forward is the activation.
func (activationAlone) Forward(_ Place, t *nn.Tape, x *nn.Value) *nn.Value { return t.SiLU(x) }
