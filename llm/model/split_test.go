package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/model"
)

// A model in several files is the same as in one.
func TestSplitModel(t *testing.T) {
	made := need.Value(model.New(llmtest.TinyConfig(false), nil, 1))(t)
	defer made.Close()
	dir := t.TempDir()
	whole, again := filepath.Join(dir, "whole.gguf"), filepath.Join(dir, "again.gguf")
	require.NoError(t, made.Save(whole, model.SaveOptions{}))
	g := need.Value(ggml.OpenGGUF(whole))(t)
	defer g.Close()
	paths := need.Value(g.WriteParts(filepath.Join(dir, "split"), ggml.PartOptions{MaxTensors: 5, KeysFirst: true}))(t)
	require.Greater(t, len(paths), 2)
	m := need.Value(model.Load(paths[0], model.LoadOptions{}))(t)
	defer m.Close()
	require.NoError(t, m.Save(again, model.SaveOptions{}))
	want := need.Value(os.ReadFile(whole))(t)
	got := need.Value(os.ReadFile(again))(t)
	require.Equal(t, want, got)
}
