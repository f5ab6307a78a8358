package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/llm/model"
)

// A model in several files is the same as in one.
func TestSplitModel(t *testing.T) {
	made, err := model.New(llmtest.TinyConfig(false), nil, 1)
	require.NoError(t, err)
	defer made.Close()
	dir := t.TempDir()
	whole, again := filepath.Join(dir, "whole.gguf"), filepath.Join(dir, "again.gguf")
	require.NoError(t, made.Save(whole, model.SaveOptions{}))
	g, err := ggml.OpenGGUF(whole)
	require.NoError(t, err)
	defer g.Close()
	paths, err := g.WriteParts(filepath.Join(dir, "split"), ggml.PartOptions{MaxTensors: 5, KeysFirst: true})
	require.NoError(t, err)
	require.Greater(t, len(paths), 2)
	m, err := model.Load(paths[0], model.LoadOptions{})
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, m.Save(again, model.SaveOptions{}))
	want, err := os.ReadFile(whole)
	require.NoError(t, err)
	got, err := os.ReadFile(again)
	require.NoError(t, err)
	require.Equal(t, want, got)
}
