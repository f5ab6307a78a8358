package arch

import (
	"fmt"
	"strings"

	"github.com/goggml/ggml"
)

// A module is a matrix of a layer as transformers has it: the last two parts of its path,
// and the matrices that it holds, one below the other.
type module struct {
	path     string
	matrices []string
}

var (
	separateModules = []module{
		{"self_attn.q_proj", []string{"attn_q"}},
		{"self_attn.k_proj", []string{"attn_k"}},
		{"self_attn.v_proj", []string{"attn_v"}},
		{"self_attn.o_proj", []string{"attn_output"}},
		{"mlp.gate_proj", []string{"ffn_gate"}},
		{"mlp.up_proj", []string{"ffn_up"}},
		{"mlp.down_proj", []string{"ffn_down"}},
	}
	fusedModules = []module{
		{"self_attn.qkv_proj", []string{"attn_q", "attn_k", "attn_v"}},
		{"self_attn.o_proj", []string{"attn_output"}},
		{"mlp.gate_up_proj", []string{"ffn_gate", "ffn_up"}},
		{"mlp.down_proj", []string{"ffn_down"}},
	}
)

// A Module is a matrix as transformers has it, and PEFT with it.
type Module struct {
	// Path is that from the text model, such as "layers.0.self_attn.q_proj" or
	// "embed_tokens", or "lm_head", which stands beside it.
	Path  string
	Layer int // -1 outside of the layers
	Parts []Part
}

// Name is the last part of the path, such as "q_proj".
func (m Module) Name() string { return m.Path[strings.LastIndexByte(m.Path, '.')+1:] }

// A Part is rows of a matrix. Where a GGUF file and transformers fuse different matrices,
// both have the same parts.
type Part struct {
	Name string // such as "blk.0.attn_q": that of the matrix, were none fused
	Rows int64
	// PermutedHeads is the number of heads whose rows GGUF has in another order than
	// transformers, 0 if the order is the same: in each head, row 2i is transformers' row
	// i, and row 2i+1 is the one half a head below it. Transformers rotates halves of a
	// head, and GGUF neighbours where the mode of RoPE is [ggml.RoPENorm].
	PermutedHeads int
}

// Modules lists what LoRA can adapt by the names that transformers has, in the order of its
// model. There are none for a config that [Config.Validate] refuses.
func (c Config) Modules() []Module {
	if c.check() != nil {
		return nil
	}
	list := []Module{{"embed_tokens", -1, []Part{{Name: tokenEmbd, Rows: int64(c.Vocab)}}}}
	for i := range c.Layers {
		for _, m := range specs[c.Arch].modules() {
			list = append(list, Module{fmt.Sprintf("layers.%d.%s", i, m.path), i, c.parts(fmt.Sprintf("blk.%d.", i), m.matrices)})
		}
	}
	if !c.Tied {
		list = append(list, Module{"lm_head", -1, []Part{{Name: output, Rows: int64(c.Vocab)}}})
	}
	return list
}

func (s spec) modules() []module {
	if s.fusedModules {
		return fusedModules
	}
	return separateModules
}

// MatrixParts are the parts of a matrix of a GGUF file, such as "blk.0.attn_qkv.weight".
func (c Config) MatrixParts(weight string) []Part {
	name := strings.TrimSuffix(weight, ".weight")
	if name == tokenEmbd || name == output {
		return []Part{{Name: name, Rows: int64(c.Vocab)}}
	}
	at := strings.LastIndexByte(name, '.') + 1
	return c.parts(name[:at], c.fusedIn(name[at:]))
}

// fusedIn lists the matrices of a layer that one of a GGUF file holds.
func (c Config) fusedIn(matrix string) []string {
	switch {
	case matrix == "attn_qkv":
		return []string{"attn_q", "attn_k", "attn_v"}
	case matrix == "ffn_up" && specs[c.Arch].fusedGateUp:
		return []string{"ffn_gate", "ffn_up"}
	}
	return []string{matrix}
}

func (c Config) parts(prefix string, matrices []string) []Part {
	rows := map[string]int{
		"attn_q": c.Heads * c.HeadSize, "attn_k": c.KVHeads * c.HeadSize, "attn_v": c.KVHeads * c.HeadSize, "attn_output": c.Embd,
		"ffn_gate": c.FF, "ffn_up": c.FF, "ffn_down": c.Embd,
	}
	permuted := map[string]int{}
	if specs[c.Arch].rope == ggml.RoPENorm {
		permuted = map[string]int{"attn_q": c.Heads, "attn_k": c.KVHeads}
	}
	var list []Part
	for _, m := range matrices {
		list = append(list, Part{prefix + m, int64(rows[m]), permuted[m]})
	}
	return list
}
