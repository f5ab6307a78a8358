package arch

import "github.com/goggml/ggml/internal/nn"

// SiTU is the activation of a gated network g·tanh(x/g)·sigmoid(x) ⊙ u·tanh(y/u), for a gate x with bound g and y with bound
// u. A bound u of 0 is none.
type SiTU struct{ Gate, Up float32 }

func (s SiTU) apply(t *nn.Tape, gate, up *nn.Value) *nn.Value {
	gate = t.Contiguous(gate)
	return t.Mul(t.Mul(t.Softcap(gate, s.Gate), t.Sigmoid(gate)), t.Softcap(t.Contiguous(up), s.Up))
}

// situKeys are the keys of its bounds.
var situKeys = []key{
	factor("activation.situ_beta", func(c *Config) *float32 { return &c.SiTU.Gate }, 0, true),
	{
		name: "activation.situ_linear_beta",
		read: func(m *metadata, name string, c *Config) {
			c.SiTU.Up = max(0, value[float32](m, m.arch+"."+name, 0, false))
		},
		write: func(c *Config) any { return c.SiTU.Up },
	},
}
