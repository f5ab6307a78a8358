package arch

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// addTokenTypes adds the row of the first type, as stock llama.cpp does, of a matrix [n_embd, types].
func (p Place) addTokenTypes(t *nn.Tape, x *nn.Value, there Presence) *nn.Value {
	m := p.matrixOf(Weight{
		Kind: "token_types", Shape: []int64{int64(p.config.Embd), int64(p.config.TokenTypes)}, Role: Position, KeepType: true, Optional: there == Maybe,
	})
	if m.W == nil {
		return x
	}
	first := nn.Declare(t.Inputs, "token types", ggml.I32, []int64{x.T.Dim(1)}, func(*nn.Feed, []int32) {})
	return t.Add(x, t.Embed(first, m))
}

// tokenTypes is the number of types of tokens.
var tokenTypes = key{
	name: "tokenizer.ggml.token_type_count", unprefixed: true,
	read: func(m *metadata, name string, c *Config) {
		if c.TokenTypes = int(value(m, name, uint32(0), false)); c.TokenTypes < 1 || c.TokenTypes > maxWidth {
			m.fault("%s is %d", name, c.TokenTypes)
		}
	},
	write: func(c *Config) any { return uint32(c.TokenTypes) },
}
