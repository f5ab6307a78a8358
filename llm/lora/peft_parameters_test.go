package lora_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lora"
)

// PEFT treats routers as parameters; patterns name their matrices.
func TestPEFTParameters(t *testing.T) {
	m := llmtest.ArchModel(t, "qwen3moe", ggml.F32)
	routers := []string{"model.layers.0.mlp.gate.weight", "model.layers.1.mlp.gate.weight"}
	for _, c := range []struct {
		ranks      map[string]int
		modules    []string
		pattern    map[string]int
		parameters []string
	}{
		{map[string]int{"attn_q": 4}, []string{"q_proj"}, map[string]int{}, nil},
		{map[string]int{"attn_q": 4, "ffn_gate_inp": 2}, []string{"q_proj"}, map[string]int{"gate.weight": 2}, routers},
		{map[string]int{"ffn_gate_inp": 2}, []string{}, map[string]int{}, routers},
	} {
		a := newAdapter(t, m, lora.Options{Ranks: c.ranks, Factor: 2})
		folder := t.TempDir()
		require.NoError(t, a.SavePEFT(folder, lora.PEFTOptions{}))
		raw := need.Value(os.ReadFile(filepath.Join(folder, "adapter_config.json")))(t)
		var config struct {
			Modules    []string       `json:"target_modules"`
			Parameters []string       `json:"target_parameters"`
			Ranks      map[string]int `json:"rank_pattern"`
		}
		require.NoError(t, json.Unmarshal(raw, &config))
		require.Equal(t, c.modules, config.Modules)
		require.Equal(t, c.parameters, config.Parameters)
		require.Equal(t, c.pattern, config.Ranks)
		requireEqual(t, a, load(t, folder, m))
	}
}

// PEFT's settings for parameters apply if the parameters are matrices of modules.
func TestPEFTTargetParameters(t *testing.T) {
	m := llmtest.ArchModel(t, "qwen3moe", ggml.F32)
	const merge = "; merge the adapter into its base with PEFT (merge_and_unload), and convert the merged model to GGUF"
	for _, c := range []struct {
		parameters any
		alpha      float32
		fault      string
	}{
		{[]string{"gate.weight"}, 6, ""},
		{[]string{"model.layers.0.mlp.gate.weight"}, 6, ""},
		{nil, 5, ""}, // a linear layer to older versions of transformers
		{[]string{"gate.weight", "experts.up_proj"}, 0, `target_parameters is ["gate.weight","experts.up_proj"], which are not matrices of modules` + merge},
		{[]string{"gate"}, 0, `target_parameters is ["gate"], which are not matrices of modules` + merge},
		{"gate.weight", 0, `target_parameters is "gate.weight", which are not matrices of modules` + merge},
	} {
		p := newPEFT(t.TempDir())
		p.config["target_modules"], p.config["target_parameters"] = []string{}, c.parameters
		p.config["alpha_pattern"] = map[string]int{"gate": 5, "gate.weight": 6}
		if c.parameters == nil {
			p.config["target_modules"] = []string{"gate"}
		}
		p.add(peftLayer+"mlp.gate.lora_A.weight", 2, 32)
		p.add(peftLayer+"mlp.gate.lora_B.weight", 6, 2)
		p.write(t)
		a, err := lora.Load(p.folder, m)
		if c.fault != "" {
			require.ErrorContains(t, err, c.fault)
			continue
		}
		require.NoError(t, err)
		require.Empty(t, a.Notices())
		require.Equal(t, c.alpha/2, a.WithScale(1)["blk.0.ffn_gate_inp.weight"][0].Scale)
		require.NoError(t, a.Close())
	}
}
