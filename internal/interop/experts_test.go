//go:build interop

package interop

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// Mixtures in four-bit types compute as in stock llama.cpp, with adapters and with merged ones: experts in
// MXFP4, as in gpt-oss, and in NVFP4, which llama-quantize does not write.
func TestInteropTypesOfExperts(t *testing.T) {
	dir := t.TempDir()
	run(t, filepath.Join(stock, "run"), "test-llama-archs", "-o", dir, "-s", "1")
	for _, name := range []string{"gpt-oss-moe", "qwen3moe-moe", "glm4moe-moe"} {
		file := filepath.Join(dir, name+".gguf")
		strong := filepath.Join(t.TempDir(), name+".gguf")
		strengthen(t, file, strong)
		t.Run(name+" MXFP4", func(t *testing.T) {
			requireRounding(t, quantized(t, file, "MXFP4_MOE"), "MXFP4")
			path := quantized(t, strong, "MXFP4_MOE")
			m := need.Value(model.Load(path, model.LoadOptions{}))(t)
			require.Equal(t, ggml.MXFP4, m.Weight("blk.1.ffn_down_exps.weight").Type())
			require.NoError(t, m.Close())
			testQuantizedAdapters(t, path, "MXFP4")
		})
		t.Run(name+" NVFP4", func(t *testing.T) {
			requireRounding(t, inNVFP4(t, file), "NVFP4")
			testQuantizedAdapters(t, inNVFP4(t, strong), "NVFP4")
		})
	}
}

// requireRounding compares the logits of a quantised file with the rounding errors of stock's plugins.
func requireRounding(t *testing.T, path, typ string) {
	t.Helper()
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	defer m.Close()
	tokens := llmtest.RandomTokens(3, 96, m.Config().Vocab)
	r := measureRounding(t, m, otherVariants(t, path, tokens), tokens)
	for way, got := range ways(t, m, tokens, nil) {
		t.Logf("%s %s: %s", typ, way, r.compare(got))
		require.True(t, r.allows(got), "%s %s: %s", typ, way, r.compare(got))
	}
}

func inNVFP4(t *testing.T, file string) string {
	t.Helper()
	m := need.Value(model.Load(file, model.LoadOptions{}))(t)
	defer m.Close()
	path, typ := filepath.Join(t.TempDir(), "nvfp4.gguf"), ggml.NVFP4
	require.NoError(t, lora.MergeTo(context.Background(), path, m, nil, lora.MergeOptions{Type: &typ}))
	return path
}
