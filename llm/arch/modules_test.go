package arch_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
)

// The matrices of a GGUF file and the modules of transformers have the same parts, which
// are all that LoRA can adapt.
func TestModules(t *testing.T) {
	for _, name := range arch.Architectures() {
		t.Run(name, func(t *testing.T) {
			c := llmtest.ArchModel(t, name, ggml.F32).Config()
			for _, fused := range []bool{false, true} {
				c.FusedQKV = fused
				a := need.Value(arch.Resolve(c))(t)
				var ofMatrices, ofModules []arch.Rows
				for _, w := range a.Weights() {
					require.Equal(t, w.IsAdaptable() && w.Role != arch.ExpertMatrices, len(w.Rows) > 0, w.Name)
					if len(w.Rows) > 0 {
						require.Equal(t, w.Shape[1], numRows(w.Rows), w.Name)
					}
					ofMatrices = append(ofMatrices, w.Rows...)
				}
				for _, m := range a.Modules() {
					ofModules = append(ofModules, m.Rows...)
				}
				ofMatrices = slices.DeleteFunc(ofMatrices, func(r arch.Rows) bool { return r.Module == "" })
				require.ElementsMatch(t, ofMatrices, ofModules)
			}
		})
	}
}

func numRows(rows []arch.Rows) (n int64) {
	for _, r := range rows {
		n += r.Count
	}
	return n
}

// The modules of a layer as transformers 5 has them, and whose rows the converters of
// llama.cpp permute (LlamaModel.modify_tensors).
func TestModuleNames(t *testing.T) {
	separate := map[string][]string{
		"self_attn.q_proj": {"attn_q"}, "self_attn.k_proj": {"attn_k"}, "self_attn.v_proj": {"attn_v"}, "self_attn.o_proj": {"attn_output"},
		"mlp.gate_proj": {"ffn_gate"}, "mlp.up_proj": {"ffn_up"}, "mlp.down_proj": {"ffn_down"},
	}
	fused := map[string][]string{
		"self_attn.qkv_proj": {"attn_q", "attn_k", "attn_v"}, "self_attn.o_proj": {"attn_output"},
		"mlp.gate_up_proj": {"ffn_gate", "ffn_up"}, "mlp.down_proj": {"ffn_down"},
	}
	gpt2 := map[string][]string{
		"attn.c_attn": {"attn_q", "attn_k", "attn_v"}, "attn.c_proj": {"attn_output"}, "mlp.c_fc": {"ffn_up"}, "mlp.c_proj": {"ffn_down"},
	}
	bloom := map[string][]string{ // the rows of query_key_value lie otherwise
		"self_attention.dense": {"attn_output"}, "mlp.dense_h_to_4h": {"ffn_up"}, "mlp.dense_4h_to_h": {"ffn_down"},
	}
	permuted := []string{"granite", "llama", "mistral3", "smollm3", "olmo"}
	for _, name := range []string{"bloom", "cohere2", "gemma2", "gemma3", "gpt2", "granite", "llama", "mistral3", "olmo", "olmo2", "phi3", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "smollm3"} {
		a := llmtest.ArchModel(t, name, ggml.F32).Architecture()
		c, want, layer := a.Config(), separate, "layers.1."
		switch name {
		case "phi3":
			want = fused
		case "gpt2":
			want, layer = gpt2, "h.1."
		case "bloom":
			want, layer = bloom, "h.1."
		case "qwen2moe", "qwen3moe":
			want = maps.Clone(separate)
			maps.DeleteFunc(want, func(path string, _ []string) bool { return strings.HasPrefix(path, "mlp.") })
			want["mlp.gate"] = []string{"ffn_gate_inp"}
		}
		if name == "qwen2moe" {
			want["mlp.shared_expert.gate_proj"], want["mlp.shared_expert.up_proj"], want["mlp.shared_expert.down_proj"] = []string{"ffn_gate_shexp"}, []string{"ffn_up_shexp"}, []string{"ffn_down_shexp"}
		}
		got := map[string][]string{}
		for _, m := range a.Modules() {
			require.True(t, strings.HasSuffix("."+m.Path, "."+m.Name()))
			path, inLayer := strings.CutPrefix(m.Path, layer)
			require.Equal(t, inLayer, m.Layer == 1, m.Path)
			if !inLayer {
				continue
			}
			for _, p := range m.Rows {
				part := strings.TrimPrefix(p.Name, "blk.1.")
				got[path] = append(got[path], part)
				heads := 0
				if slices.Contains(permuted, name) {
					heads = map[string]int{"attn_q": c.Heads, "attn_k": c.KVHeads}[part]
				}
				require.Equal(t, heads, p.PermutedHeads, "%s: %s of %s", name, p.Name, m.Path)
			}
		}
		require.Equal(t, want, got, name)
		paths := a.Modules()
		embedding := map[string]string{"gpt2": "wte", "bloom": "word_embeddings"}
		require.Equal(t, cmp.Or(embedding[name], "embed_tokens"), paths[0].Path)
		require.Equal(t, !c.Tied, paths[len(paths)-1].Path == "lm_head", name)
	}
}
