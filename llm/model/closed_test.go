package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// A closed model, made or loaded, is not written: the file of an older one stays.
func TestSaveClosed(t *testing.T) {
	made := need.Value(model.New(llmtest.TinyConfig(true), nil, 1))(t)
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, made.Save(path, model.SaveOptions{}))
	want := need.Value(os.ReadFile(path))(t)
	loaded := need.Value(model.Load(path, model.LoadOptions{}))(t)
	for _, m := range []*model.Model{made, loaded} {
		require.NoError(t, m.Close())
		require.ErrorIs(t, m.Save(path, model.SaveOptions{}), ggml.ErrClosed)
		got := need.Value(os.ReadFile(path))(t)
		require.Equal(t, want, got)
		g := need.Value(ggml.NewGGUF())(t)
		defer g.Close()
		require.ErrorIs(t, m.WriteKeys(g), ggml.ErrClosed)
	}
}

// Nothing that is done to a copy of the hyper-parameters changes the model.
func TestConfigIsACopy(t *testing.T) {
	m := need.Value(model.New(llmtest.TinyConfig(true), nil, 1))(t)
	defer m.Close()
	before := m.Config()
	c := m.Config()
	c.Layers, c.RMSEps = 1<<31, 0
	require.Equal(t, before, m.Config())
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

// What the file says can be overridden while it is loaded, by what a model can have and fits
// the weights.
func TestOverride(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, llmtest.TinyModel(t, llmtest.TinyConfig(true), ggml.F32).Save(path, model.SaveOptions{}))
	m := need.Value(model.Load(path, model.LoadOptions{Override: func(c *arch.Config) {
		c.Name, c.RMSEps, c.RoPE.FreqBase, c.RoPE.FreqScale = "another name", 0, 500, 0.5
	}}))(t)
	defer m.Close()
	require.Equal(t, "another name", m.Config().Name)
	require.Equal(t, float32(500), m.Config().RoPE.FreqBase)
	for message, change := range map[string]func(c *arch.Config){
		"block_count is 0":                  func(c *arch.Config) { c.Layers = 0 },
		"blk.2.attn_norm.weight is missing": func(c *arch.Config) { c.Layers++ },
		"token_embd.weight is":              func(c *arch.Config) { c.Embd *= 2 },
		"architecture \"\"; supported":      func(c *arch.Config) { *c = arch.Config{} },
	} {
		_, err := model.Load(path, model.LoadOptions{Override: change})
		require.ErrorIs(t, err, arch.ErrUnsupported)
		require.ErrorContains(t, err, message)
	}
}
