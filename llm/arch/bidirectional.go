package arch

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// ErrNotCausal is the error of operations that require a causal model, for a model that is not, such as
// a model of text diffusion.
var ErrNotCausal = errors.New("attention that is not causal")

// IsCausal reports whether tokens do not see later tokens.
func (a *Architecture) IsCausal() bool { return !a.get().bidirectional }

// CheckCausal returns an error with the consequence if the model is not causal.
func (a *Architecture) CheckCausal(consequence string) error {
	if a.IsCausal() {
		return nil
	}
	return fmt.Errorf("the architecture %s has %w, so each token sees later tokens: %s", a.config.Arch, ErrNotCausal, consequence)
}

// noteBidirectional records that a part lets tokens see later tokens.
func (p Place) noteBidirectional(t *nn.Tape, a Attention) {
	if !p.resolved {
		p.Architecture.bidirectional = true
	}
	if a.Chunked {
		t.C.BuildOp("attention", nil, func(b *ggml.OpBuilder) *ggml.Tensor {
			b.Require(false, "bidirectional attention cannot be split into chunks of positions")
			return nil
		})
	}
}

// saidNotCausal is a key without which stock llama.cpp takes a model as causal.
var saidNotCausal = key{
	name: notCausal.name,
	read: func(m *metadata, name string, _ *Config) {
		if value(m, m.arch+"."+name, true, true) {
			m.fault("%s.%s is not false: a causal model of this architecture is unsupported", m.arch, name)
		}
	},
	write: notCausal.write,
}

// notCausal is written for other programs; the row of the architecture says so anyway.
var notCausal = key{
	name:  "attention.causal",
	read:  func(*metadata, string, *Config) {},
	write: func(*Config) any { return false },
}
