package arch

import (
	"cmp"
	"maps"
	"slices"
)

// A naming has transformers' names for the modules of a model. The zero value is llama's.
type naming struct {
	root              string // the module that has the layers, "model"
	layers            string // the path of a layer in it, with its number: "layers.%d."
	embed, head       string
	matrices          map[Kind]string // paths in a layer by kind in files, where they differ from llama's
	rotatesNeighbours bool            // as files do, so that no rows are permuted
	// interleaved: one module holds queries, keys and values side by side for each head or group of
	// heads, so rows of a file's matrix match none of its rows.
	interleaved bool
	// scaled: converters multiply all matrices but ffn_up by factors that files do not keep, so an adapter of the file
	// is none of the module.
	scaled bool
}

// with returns the names with more matrices.
func (n naming) with(matrices map[Kind]string) naming {
	all := maps.Clone(n.matrices)
	maps.Copy(all, matrices)
	n.matrices = all
	return n
}

// fusedModules: queries, keys and values are one matrix, and gate and up too.
var fusedModules = naming{matrices: map[Kind]string{
	"attn_q": "self_attn.qkv_proj", "attn_k": "self_attn.qkv_proj", "attn_v": "self_attn.qkv_proj",
	"ffn_gate": "mlp.gate_up_proj", "ffn_up": "mlp.gate_up_proj",
}}

var usualModules = map[Kind]string{
	"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_gate": "self_attn.gate_proj",
	"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}

// unscaled returns the path of a module, or "" if its matrix is scaled in files.
func (n naming) unscaled(path string) string {
	if n.scaled {
		return ""
	}
	return path
}

func (n naming) layer() string     { return cmp.Or(n.layers, "layers.%d.") }
func (n naming) embedding() string { return cmp.Or(n.embed, "embed_tokens") }
func (n naming) output() string    { return cmp.Or(n.head, "lm_head") }

// rows describes the rows of a matrix of the place, whose heads may be permuted, see [Rows].
func (p Place) rows(kind Kind, count int64, permutedHeads int) Rows {
	names := p.spec().modules
	if p.spec().encoder { // whose adapters PEFT neither reads nor writes here
		return Rows{Name: p.prefix + string(kind), Count: count}
	}
	if names.rotatesNeighbours {
		permutedHeads = 0
	}
	module := p.modules + cmp.Or(names.matrices[kind], usualModules[kind], string(kind))
	if kind != "ffn_up" {
		module = names.unscaled(module)
	}
	if names.interleaved && slices.Contains([]Kind{"attn_q", "attn_k", "attn_v"}, kind) {
		return Rows{Name: p.prefix + string(kind), Count: count, PermutedHeads: permutedHeads}
	}
	return Rows{Name: p.prefix + string(kind), Module: module, Count: count, PermutedHeads: permutedHeads}
}

// ModuleRoot returns transformers' module of the text model, such as "model" or "transformer". All
// paths of modules start there, except the output's.
func (a *Architecture) ModuleRoot() string {
	return cmp.Or(a.get().config.spec().modules.root, "model")
}

// EmbeddingModule returns the path of the embedding in transformers.
func (a *Architecture) EmbeddingModule() string { return a.get().config.spec().modules.embedding() }

// OutputModule returns the path of the output in transformers, which is outside of the text model.
func (a *Architecture) OutputModule() string { return a.get().config.spec().modules.output() }
