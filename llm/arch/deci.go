package arch

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

func init() {
	family(map[string]spec{
		"deci": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, attnBias: Maybe, ffnBias: Maybe, ropeFactors: true, perLayer: true, arrange: deciLayer,
		},
	})
}

// deciLayer is a llama layer after an architecture search: attention may be replaced by a matrix or
// be missing, and so may the whole layer.
func deciLayer(c *Config, i int, attention, network Residual) Layer {
	switch part := attention.Part.(Attention); {
	case part.Heads == 0 && at(c.FFs, i, c.FF) == 0:
		return Layer{}
	case part.Heads == 0:
		return Layer{network}
	case part.KVHeads == 0:
		attention.Part = linear{}
	}
	return Layer{attention, network}
}

// linear is a matrix that replaces attention.
type linear struct{}

// String describes the part.
func (linear) String() string { return "a matrix in place of attention" }

// Forward multiplies with the matrix.
func (linear) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd := int64(p.config.Embd)
	return t.Linear(x, p.Matrix("attn_output", embd, embd, MatrixOptions{Residual: true}))[0]
}
