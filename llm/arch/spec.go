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
	qkNorm qkNorm
	act    ggml.GLU
	// fusedGateUp is a matrix ffn_up [n_embd, 2·n_ff] that holds the gate too.
	fusedGateUp bool
	// biases of attn_output and the feed-forward network; those of queries, keys and
	// values may be in any model.
	biases bool
	// keys are those that other kinds of models do not have, or mean otherwise.
	keys []key
	// ropeFactors may be in the file: one tensor, or one for short and one for long
	// contexts.
	ropeFactors bool
	// layer changes what layer i has from what all have; nil changes nothing.
	layer func(c *Config, i int, l *Layer)
	// complete derives what no key says, after the keys are read.
	complete func(c *Config)
	untied   bool // the output matrix is required
}

// norms says where the RMS norms of a layer stand, around attention and around the
// feed-forward network.
type norms int

const (
	normBefore norms = 1 << iota
	normAfter
)

// qkNorm says whether queries and keys are normalised, and over what.
type qkNorm int

const (
	noQKNorm qkNorm = iota
	perHead
	allHeads
)

var specs = map[string]spec{
	"llama": {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, biases: true, ropeFactors: true},
}

// Architectures lists the values of general.architecture that are supported.
func Architectures() []string { return slices.Sorted(maps.Keys(specs)) }
