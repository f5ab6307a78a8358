package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
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
