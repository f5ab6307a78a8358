package model_test

import (
	"io"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/llm/model"
)

// A file that is no model of a known kind is refused in one line that names it.
func TestLoadErrors(t *testing.T) {
	made, err := model.New(llmtest.TinyConfig(false), nil, 1)
	require.NoError(t, err)
	defer made.Close()
	for name, c := range map[string]struct {
		key   string
		value any
		want  string
	}{
		"adapter":       {"general.type", "adapter", `the file is of type "adapter", not a model`},
		"architecture":  {"general.architecture", "mamba", `architecture "mamba"; supported: gemma3, granite, llama, mistral3, olmo2, phi3, qwen2, qwen3, smollm3`},
		"no heads":      {"llama.attention.head_count", uint32(0), "llama.attention.head_count is 0"},
		"KV heads":      {"llama.attention.head_count_kv", uint32(3), "4 heads cannot share 3 KV heads"},
		"experts":       {"llama.expert_count", uint32(8), "mixture of 8 experts"},
		"scaling":       {"llama.rope.scaling.type", "cubic", `RoPE scaling "cubic" is unsupported; supported: linear, longrope, none, yarn`},
		"width":         {"llama.embedding_length", uint32(32), "token_embd.weight is [64 96], not [32 96]"},
		"wrong type":    {"llama.block_count", "two", "llama.block_count"},
		"more layers":   {"llama.block_count", uint32(3), "blk.2.attn_q.weight is missing"},
		"many layers":   {"llama.block_count", uint32(500), "; and 4472 more"},
		"damaged":       {"llama.block_count", uint32(1<<31 - 1), "there are 2147483647 layers; 512 are the most"},
		"values differ": {"llama.attention.value_length", uint32(8), "llama.attention.value_length is 8, not 16 as everywhere else"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "model.gguf")
			require.NoError(t, made.Save(path, model.SaveOptions{}))
			g, err := ggml.OpenGGUF(path)
			require.NoError(t, err)
			defer g.Close()
			require.NoError(t, g.Set(c.key, c.value))
			changed := filepath.Join(dir, "changed.gguf")
			require.NoError(t, g.WriteFile(changed))
			_, err = model.Load(changed, model.LoadOptions{})
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, changed)
		})
	}
}

// What a file has beyond the graph would change its results, and is refused.
func TestUnknownTensors(t *testing.T) {
	made, err := model.New(llmtest.TinyConfig(false), nil, 1)
	require.NoError(t, err)
	defer made.Close()
	for name, c := range map[string]struct {
		shape []int64
		want  string
	}{
		"blk.0.attn_q.bias":        {[]int64{64}, ""},
		"rope_freqs.weight":        {[]int64{8}, ""},
		"blk.1.ffn_up.bias":        {[]int64{1}, "blk.1.ffn_up.bias is [1], not [96]"},
		"rope_freqs.factors":       {[]int64{8}, `rope_freqs.factors has no place in a model of kind "llama"`},
		"blk.0.attn_q_norm.weight": {[]int64{16}, "blk.0.attn_q_norm.weight has no place"},
		"blk.0.attn_q.scale":       {[]int64{1}, ""},
		"blk.0.attn_norm.scale":    {[]int64{1}, "blk.0.attn_norm.scale has no place"},
		"blk.2.attn_norm.weight":   {[]int64{64}, "blk.2.attn_norm.weight has no place"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, more := filepath.Join(dir, "model.gguf"), filepath.Join(dir, "more.gguf")
			require.NoError(t, made.Save(path, model.SaveOptions{}))
			g, err := ggml.OpenGGUF(path)
			require.NoError(t, err)
			defer g.Close()
			require.NoError(t, g.AddTensorFrom(ggml.GGUFTensor{Name: name, Type: ggml.F32, Shape: c.shape}, func(w io.Writer) error {
				_, err := w.Write(make([]byte, 4*c.shape[0]))
				return err
			}))
			require.NoError(t, g.WriteFile(more))
			m, err := model.Load(more, model.LoadOptions{})
			if c.want == "" {
				require.NoError(t, err)
				m.Close()
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A model that is made, saved and loaded has the same RoPE.
func TestRoPEIsSaved(t *testing.T) {
	for name, change := range map[string]func(r *ggml.RoPE){
		"plain":       func(*ggml.RoPE) {},
		"linear":      func(r *ggml.RoPE) { r.FreqScale = 0.25 },
		"yarn":        func(r *ggml.RoPE) { r.FreqScale, r.ExtFactor, r.TrainedCtx = 0.125, 1, 32 },
		"attention":   func(r *ggml.RoPE) { r.AttnFactor = 0.75 },
		"yarn and it": func(r *ggml.RoPE) { r.FreqScale, r.ExtFactor, r.AttnFactor = 0.5, 1, 1.5 },
	} {
		c := llmtest.TinyConfig(true)
		change(&c.RoPE)
		m, err := model.New(c, nil, 1)
		require.NoError(t, err, name)
		path := filepath.Join(t.TempDir(), "model.gguf")
		require.NoError(t, m.Save(path, model.SaveOptions{}))
		m.Close()
		again, err := model.Load(path, model.LoadOptions{})
		require.NoError(t, err, name)
		require.Equal(t, c.RoPE, again.RoPE, name)
		again.Close()
	}
	for want, change := range map[string]func(r *ggml.RoPE){
		"YaRN has factor 0.5":             func(r *ggml.RoPE) { r.ExtFactor = 0.5 },
		"betas 16 and 1":                  func(r *ggml.RoPE) { r.ExtFactor, r.BetaFast = 1, 16 },
		"which is another architecture's": func(r *ggml.RoPE) { r.Mode = ggml.RoPENeoX },
	} {
		c := llmtest.TinyConfig(true)
		change(&c.RoPE)
		_, err := model.New(c, nil, 1)
		require.ErrorContains(t, err, want)
	}
}

// A file without a vocabulary says that it has none, and opens again.
func TestNoVocabulary(t *testing.T) {
	m, err := model.New(llmtest.TinyConfig(false), nil, 1)
	require.NoError(t, err)
	defer m.Close()
	path := filepath.Join(t.TempDir(), "bare.gguf")
	require.NoError(t, m.Save(path, model.SaveOptions{}))
	again, err := model.Load(path, model.LoadOptions{})
	require.NoError(t, err)
	defer again.Close()
	require.Nil(t, again.Tokenizer)
	kind, err := ggml.GGUFValue[string](again.GGUF(), "tokenizer.ggml.model")
	require.NoError(t, err)
	require.Equal(t, "no_vocab", kind)
}

// Numbers that are not finite make no model.
func TestConfigIsFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for want, change := range map[string]func(c *model.Config){
		"RoPE has the attention factor NaN":            func(c *model.Config) { c.RoPE.AttnFactor = nan },
		"RoPE has the attention factor +Inf":           func(c *model.Config) { c.RoPE.AttnFactor = inf },
		"the epsilon of the norm is NaN":               func(c *model.Config) { c.RMSEps = nan },
		"the epsilon of the norm is +Inf":              func(c *model.Config) { c.RMSEps = inf },
		"RoPE has frequency base NaN and scale 1":      func(c *model.Config) { c.RoPE.FreqBase = nan },
		"RoPE has frequency base 10000 and scale +Inf": func(c *model.Config) { c.RoPE.FreqScale = inf },
		"the scale of logits is NaN":                   func(c *model.Config) { c.LogitScale = nan },
	} {
		c := llmtest.TinyConfig(true)
		change(&c)
		_, err := model.New(c, nil, 1)
		require.ErrorIs(t, err, model.ErrUnsupported)
		require.ErrorContains(t, err, want)
	}
}
