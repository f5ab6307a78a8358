//go:build interop

package interop

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// keys are the keys of a file, without the architecture's name.
type keys map[string]any

// settings are keys that some architectures use, and others may have.
var settings = map[string]keys{
	"base":            {"rope.freq_base": float32(500)},
	"linear":          {"rope.scaling.type": "linear", "rope.scaling.factor": float32(4), "rope.scaling.attn_factor": float32(0.7)},
	"shrunk":          {"rope.scaling.type": "yarn", "rope.scaling.factor": float32(0.5), "rope.scaling.attn_factor": float32(0.7)},
	"YaRN":            {"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(16), "rope.scaling.attn_factor": float32(0.7)},
	"none":            {"rope.scaling.type": "none", "rope.scaling.factor": float32(4)},
	"window":          {"attention.sliding_window": uint32(9), "attention.sliding_window_pattern": uint32(2)},
	"narrow window":   {"attention.sliding_window": uint32(1), "attention.sliding_window_pattern": uint32(3)},
	"base of windows": {"attention.sliding_window": uint32(9), "attention.sliding_window_pattern": uint32(2), "rope.freq_base_swa": float32(500)},
	"windows, YaRN": {
		"attention.sliding_window": uint32(9), "attention.sliding_window_pattern": uint32(2), "rope.freq_base_swa": float32(500),
		"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(16), "rope.scaling.attn_factor": float32(0.7),
	},
	"scales": {
		"embedding_scale": float32(3), "residual_scale": float32(0.4), "attention.scale": float32(0.3), "logit_scale": float32(2.5),
		"final_logit_softcapping": float32(1.5), "attn_logit_softcapping": float32(2), "attention.clamp_kqv": float32(0.1),
	},
	"temperature": {
		"attention.temperature_scale": float32(0.4), "attention.temperature_length": uint32(8), "rope.scaling.original_context_length": uint32(8),
		"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.yarn_log_multiplier": float32(0.7),
		"rope.scaling.yarn_beta_fast": float32(16), "rope.scaling.yarn_beta_slow": float32(2), "rope.scaling.yarn_ext_factor": float32(0.5),
	},
	"without RoPE": {"rope.scaling.finetuned": false},
	"epsilon":      {"attention.layer_norm_rms_epsilon": float32(0.5)},
}

// Keys have the same effect in each architecture as in stock llama.cpp, including keys that it ignores.
func TestInteropSettings(t *testing.T) {
	dir := t.TempDir()
	run(t, filepath.Join(stock, "run"), "test-llama-archs", "-o", dir, "-s", "1")
	for _, file := range archs {
		arch, base := kindOf(file), filepath.Join(t.TempDir(), file+".gguf")
		strengthen(t, filepath.Join(dir, file+".gguf"), base)
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			t.Run(file+" "+name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "changed.gguf")
				g := need.Value(ggml.OpenGGUF(base))(t)
				defer g.Close()
				for key, value := range settings[name] {
					require.NoError(t, g.Set(arch+"."+key, value))
				}
				require.NoError(t, g.WriteFile(path))
				m, err := model.Load(path, model.LoadOptions{})
				if file == "grok-moe" && name == "temperature" {
					require.ErrorContains(t, err, "grok.rope.scaling.yarn_ext_factor is 0.5, which is unsupported; supported: 1")
					return
				}
				if file == "dots3note-moe" && settings[name]["attention.sliding_window_pattern"] != nil { // a number
					require.ErrorContains(t, err, "dots3note.attention.sliding_window_pattern is not a list of the layers")
					_, err := logitsBy([]string{filepath.Join(stock, "run")}, t.TempDir(), path, []int32{1})
					require.ErrorContains(t, err, "dots3note.attention.sliding_window_pattern")
					return
				}
				require.NoError(t, err)
				defer m.Close()
				tokens := llmtest.RandomTokens(3, 40, m.Config().Vocab)
				want, err := logitsBy([]string{filepath.Join(stock, "run")}, t.TempDir(), path, tokens)
				if err != nil {
					require.Regexp(t, "(array key not found in model:|key) "+arch+`.attention.sliding_window_pattern( has wrong type u32 but expected type arr)?`, err.Error())
					t.Skip("stock reads no pattern that is a number")
				}
				n := nmse(ourLogits(t, m, tokens, nil), want)
				t.Logf("NMSE %.2g", n)
				if file == "qwen2vl-dense" && name == "epsilon" {
					require.Greater(t, n, bound, "stock reads no epsilon of it, and computes with 0")
					return
				}
				require.LessOrEqual(t, n, bound)
			})
		}
	}
}

// The largest gemma3, recognised by its number of layers, has its own attention scale.
func TestInteropLargestGemma3(t *testing.T) {
	made := need.Value(model.New(arch.Config{
		Arch: "gemma3", Vocab: 40, Context: 64, Embd: 36, FF: 48, Layers: 62, Heads: 8, KVHeads: 4, HeadSize: 8, RMSEps: 1e-6, Tied: true,
		RoPE:   ggml.RoPE{Dims: 8, Mode: ggml.RoPENeoX, FreqBase: 1e6, FreqScale: 1, AttnFactor: 1, TrainedCtx: 64},
		Window: 5, WindowPattern: 6, LocalFreqBase: 1e4, EmbdScale: 6, AttnScale: 0.5, // 1/√4
	}, nil, 1))(t)
	defer made.Close()
	path := filepath.Join(t.TempDir(), "large.gguf")
	require.NoError(t, made.Save(path, model.SaveOptions{}))
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	defer m.Close()
	tokens := llmtest.RandomTokens(3, 40, m.Config().Vocab)
	require.LessOrEqual(t, nmse(ourLogits(t, m, tokens, nil), stockLogits(t, path, tokens)), bound)
}
