//go:build interop

package interop

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// someModel returns a file of tensors of several types and sizes.
func someModel(t *testing.T) string {
	g := need.Value(ggml.NewGGUF())(t)
	defer g.Close()
	require.NoError(t, g.Set("general.architecture", "llama"))
	require.NoError(t, g.Set("tokens", []string{"a", "bc"}))
	for i, typ := range []ggml.Type{ggml.F32, ggml.Q4_0, ggml.F16, ggml.I8, ggml.Q8_0, ggml.BF16, ggml.F32} {
		info := ggml.GGUFTensor{Name: fmt.Sprint("t", i), Type: typ, Shape: []int64{int64(32 * (i + 1)), 900}}
		data := bytes.Repeat([]byte{byte(i + 1), byte(7 * i), 3}, int(typ.RowSize(info.NumElements())))[:typ.RowSize(info.NumElements())]
		require.NoError(t, g.AddTensorFrom(info, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}))
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, g.WriteFile(path))
	return path
}

// contents returns the keys and tensors of a file, or of a split model by its first file.
func contents(t *testing.T, path string, without ...string) (keys map[string]any, tensors map[string]string) {
	g := need.Value(ggml.OpenGGUF(path))(t)
	defer g.Close()
	for _, key := range without {
		require.NoError(t, g.Remove(key))
	}
	keys, tensors = map[string]any{}, map[string]string{}
	for k, v := range g.Keys() {
		keys[k] = v
	}
	for info := range g.Tensors() {
		r := need.Value(g.TensorData(info.Name))(t)
		data := need.Value(io.ReadAll(r))(t)
		tensors[info.String()] = string(data)
	}
	return keys, tensors
}

// llama.cpp merges what this package splits, and vice versa.
func TestInteropSplit(t *testing.T) {
	gguf := func(args ...string) {
		run(t, filepath.Join(stock, "run"), append([]string{"llama-gguf-split"}, args...)...)
	}
	whole := someModel(t)
	keys, tensors := contents(t, whole)
	g := need.Value(ggml.OpenGGUF(whole))(t)
	defer g.Close()
	for name, o := range map[string]ggml.PartOptions{
		"number":     {MaxTensors: 3},
		"size":       {MaxBytes: 200_000},
		"keys first": {MaxTensors: 4, KeysFirst: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			paths := need.Value(g.WriteParts(filepath.Join(dir, "ours"), o))(t)
			require.Greater(t, len(paths), 1)
			gguf("--merge", paths[0], filepath.Join(dir, "merged.gguf"))
			gotKeys, got := contents(t, filepath.Join(dir, "merged.gguf"), "split.no", "split.count", "split.tensors.count")
			require.Equal(t, keys, gotKeys)
			require.Equal(t, tensors, got)
		})
	}
	for name, args := range map[string][]string{
		"number":     {"--split-max-tensors", "3"},
		"size":       {"--split-max-size", "1M"},
		"keys first": {"--split-max-tensors", "4", "--no-tensor-first-split"},
	} {
		t.Run("theirs by "+name, func(t *testing.T) {
			prefix := filepath.Join(t.TempDir(), "theirs")
			gguf(append(append([]string{"--split"}, args...), whole, prefix)...)
			list := need.Value(filepath.Glob(prefix + "-00001-of-*.gguf"))(t)
			require.Len(t, list, 1)
			gotKeys, got := contents(t, list[0])
			require.Equal(t, keys, gotKeys)
			require.Equal(t, tensors, got)
		})
	}
	// The same split gives the same files.
	dir := t.TempDir()
	paths := need.Value(g.WriteParts(filepath.Join(dir, "ours"), ggml.PartOptions{MaxTensors: 3}))(t)
	gguf("--split", "--split-max-tensors", "3", whole, filepath.Join(dir, "theirs"))
	for i, path := range paths {
		ours := need.Value(os.ReadFile(path))(t)
		theirs := need.Value(os.ReadFile(filepath.Join(dir, fmt.Sprintf("theirs-%05d-of-%05d.gguf", i+1, len(paths)))))(t)
		require.Equal(t, len(theirs), len(ours))
		require.True(t, bytes.Equal(theirs, ours), "part %d differs", i+1)
	}
}
