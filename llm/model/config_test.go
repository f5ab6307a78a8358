package model_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/model"
)

// A file that is no model of a known kind is refused in one line that names it.
func TestLoadErrors(t *testing.T) {
	made, err := model.New(tinyConfig(false), nil, 1)
	require.NoError(t, err)
	defer made.Close()
	for name, c := range map[string]struct {
		key   string
		value any
		want  string
	}{
		"adapter":       {"general.type", "adapter", `the file is of type "adapter", not a model`},
		"architecture":  {"general.architecture", "mamba", `architecture "mamba"; supported: llama`},
		"no heads":      {"llama.attention.head_count", uint32(0), "llama.attention.head_count is 0"},
		"KV heads":      {"llama.attention.head_count_kv", uint32(3), "4 heads cannot share 3 KV heads"},
		"experts":       {"llama.expert_count", uint32(8), "mixture of 8 experts"},
		"scaling":       {"llama.rope.scaling.type", "longrope", `RoPE scaling "longrope" is unsupported`},
		"width":         {"llama.embedding_length", uint32(32), "token_embd.weight is [64 96], not [32 96]"},
		"wrong type":    {"llama.block_count", "two", "llama.block_count"},
		"more layers":   {"llama.block_count", uint32(3), "blk.2.attn_q.weight is missing"},
		"many layers":   {"llama.block_count", uint32(1000), "; and 8972 more"},
		"damaged":       {"llama.block_count", uint32(1<<31 - 1), "there are 2147483647 layers; 65536 are the most"},
		"values differ": {"llama.attention.value_length", uint32(8), "keys of 16 and values of 8 elements"},
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

// A file without a vocabulary says that it has none, and opens again.
func TestNoVocabulary(t *testing.T) {
	m, err := model.New(tinyConfig(false), nil, 1)
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
