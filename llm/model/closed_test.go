package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// A closed model, made or loaded, is not written: the file of an older one stays.
func TestSaveClosed(t *testing.T) {
	made, err := model.New(llmtest.TinyConfig(true), nil, 1)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, made.Save(path, model.SaveOptions{}))
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	loaded, err := model.Load(path, model.LoadOptions{})
	require.NoError(t, err)
	for _, m := range []*model.Model{made, loaded} {
		require.NoError(t, m.Close())
		require.ErrorIs(t, m.Save(path, model.SaveOptions{}), ggml.ErrClosed)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, got)
		g, err := ggml.NewGGUF()
		require.NoError(t, err)
		defer g.Close()
		require.ErrorIs(t, m.WriteKeys(g), ggml.ErrClosed)
	}
}

// Config is there to be read, but for what flags of programs change: the epsilon of the norms, and
// RoPE's base and scale. Whoever changes more gets an error wherever the model is used.
func TestChangedConfig(t *testing.T) {
	for _, change := range []func(c *model.Config){
		func(c *model.Config) { *c = model.Config{} },
		func(c *model.Config) { c.Layers = 1 << 31 },
		func(c *model.Config) { c.Layers++ },
		func(c *model.Config) { c.KVHeads = 0 },
	} {
		m, err := model.New(llmtest.TinyConfig(true), nil, 1)
		require.NoError(t, err)
		defer m.Close()
		change(&m.Config)
		const message = "its Config has been changed: the weights are those of another"
		require.ErrorContains(t, m.CheckOpen(), message)
		require.ErrorContains(t, m.Save(filepath.Join(t.TempDir(), "x"), model.SaveOptions{}), message)
		_, err = infer.NewSession(m, infer.SessionOptions{})
		require.ErrorContains(t, err, message)
		_, err = infer.NewBatch(m, 2, infer.SessionOptions{})
		require.ErrorContains(t, err, message)
		_, err = lora.New(m, lora.Options{Rank: 2})
		require.ErrorContains(t, err, message)
		require.Equal(t, []string{"token_embd", "output"}, lora.Targets(model.Config{Layers: 1 << 31}))
	}
	m, err := model.New(llmtest.TinyConfig(true), nil, 1)
	require.NoError(t, err)
	defer m.Close()
	m.Config.Name = "another name"
	require.NoError(t, m.CheckOpen())
}

// A load that does not come to its end leaves nothing open.
func TestLoadEndsEarly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, llmtest.TinyModel(t, llmtest.TinyConfig(true), ggml.Q8_0).Save(path, model.SaveOptions{}))
	before := ggml.OpenObjects()
	for _, o := range []model.LoadOptions{{}, {NoMmap: true}, {Repack: true}} {
		o.Progress = func(int64, int64) { panic("enough") }
		require.PanicsWithValue(t, "enough", func() { _, _ = model.Load(path, o) })
		require.Equal(t, before, ggml.OpenObjects())
	}
	require.NoError(t, os.WriteFile(path, []byte("GGUF"), 0o666))
	_, err := model.Load(path, model.LoadOptions{})
	require.Error(t, err)
	require.Equal(t, before, ggml.OpenObjects())
}

// What no shape depends on may be changed.
func TestChangedNumbers(t *testing.T) {
	m, err := model.New(llmtest.TinyConfig(true), nil, 1)
	require.NoError(t, err)
	defer m.Close()
	m.Config.RMSEps, m.Config.RoPE.FreqBase, m.Config.RoPE.FreqScale = 0, 500, 0.5
	require.NoError(t, m.CheckOpen())
}
