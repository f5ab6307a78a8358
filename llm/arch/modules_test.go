package arch_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/llm/arch"
)

// The matrices of a GGUF file and the modules of transformers have the same parts, which
// are all that LoRA can adapt.
func TestModules(t *testing.T) {
	for _, name := range arch.Architectures() {
		t.Run(name, func(t *testing.T) {
			c := llmtest.ArchModel(t, name, ggml.F32).Config
			for _, fused := range []bool{false, true} {
				c.FusedQKV = fused
				var ofMatrices, ofModules []arch.Part
				for _, w := range c.Weights() {
					if w.Role != arch.Linear && w.Role != arch.Embedding {
						continue
					}
					parts := c.MatrixParts(w.Name)
					require.Equal(t, w.Shape[1], numRows(parts), w.Name)
					ofMatrices = append(ofMatrices, parts...)
				}
				for _, m := range c.Modules() {
					ofModules = append(ofModules, m.Parts...)
				}
				require.ElementsMatch(t, ofMatrices, ofModules)
			}
		})
	}
}

func numRows(parts []arch.Part) (n int64) {
	for _, p := range parts {
		n += p.Rows
	}
	return n
}

// As transformers 5 has them.
func TestModuleNames(t *testing.T) {
	separate := map[string][]string{
		"embed_tokens": {"token_embd"}, "lm_head": {"output"},
		"q_proj": {"attn_q"}, "k_proj": {"attn_k"}, "v_proj": {"attn_v"}, "o_proj": {"attn_output"},
		"gate_proj": {"ffn_gate"}, "up_proj": {"ffn_up"}, "down_proj": {"ffn_down"},
	}
	fusedFile := map[string][]string{
		"embed_tokens": {"token_embd"}, "lm_head": {"output"},
		"q_proj": {"attn_qkv"}, "k_proj": {"attn_qkv"}, "v_proj": {"attn_qkv"}, "o_proj": {"attn_output"},
		"gate_proj": {"ffn_gate"}, "up_proj": {"ffn_up"}, "down_proj": {"ffn_down"},
	}
	fusedModules := map[string][]string{
		"embed_tokens": {"token_embd"}, "lm_head": {"output"},
		"qkv_proj": {"attn_q", "attn_k", "attn_v"}, "o_proj": {"attn_output"}, "gate_up_proj": {"ffn_up"}, "down_proj": {"ffn_down"},
	}
	bothFused := map[string][]string{
		"embed_tokens": {"token_embd"}, "lm_head": {"output"},
		"qkv_proj": {"attn_qkv"}, "o_proj": {"attn_output"}, "gate_up_proj": {"ffn_up"}, "down_proj": {"ffn_down"},
	}
	permuted := []string{"granite", "llama", "mistral3", "smollm3"} // by LlamaModel.modify_tensors of llama.cpp's converters
	for _, name := range arch.Architectures() {
		c := llmtest.ArchModel(t, name, ggml.F32).Config
		want, wantFused := separate, fusedFile
		if name == "phi3" {
			want, wantFused = fusedModules, bothFused
		}
		c.FusedQKV = false
		require.Equal(t, want, c.ModuleTargets(), name)
		c.FusedQKV = true
		require.Equal(t, wantFused, c.ModuleTargets(), name)
		for _, m := range c.Modules() {
			for _, p := range m.Parts {
				heads := 0
				if slices.Contains(permuted, name) {
					heads = map[string]int{"attn_q": c.Heads, "attn_k": c.KVHeads}[p.Name[strings.LastIndexByte(p.Name, '.')+1:]]
				}
				require.Equal(t, heads, p.PermutedHeads, "%s: %s of %s", name, p.Name, m.Path)
			}
			require.True(t, strings.HasSuffix("."+m.Path, "."+m.Name()))
			require.Contains(t, want, m.Name())
		}
	}
}
