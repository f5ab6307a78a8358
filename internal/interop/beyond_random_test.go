//go:build interop

package interop

import (
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/model"
)

// beyondRandom are models that stock llama.cpp computes, but that are not among its random ones.
var beyondRandom = []string{"apertus", "arwkv7", "bitnet", "chameleon", "chameleon-before", "deepseek4-tables", "gemma3n", "gemma4", "gemma4-moe", "graniteswitch", "graniteswitch-tied", "minimax-m3-blocks", "plm", "rwkv6", "rwkv6qwen2", "rwkv7", "step35"}

// TestInteropBeyondRandom compares the logits of these models with stock's.
func TestInteropBeyondRandom(t *testing.T) {
	dir := t.TempDir()
	run(t, filepath.Join(stock, "run"), "test-llama-archs", "-o", dir, "-s", "1")
	variants := otherVariants(t, filepath.Join(dir, "llama-dense.gguf"), []int32{1})
	for _, name := range beyondRandom {
		for i, seed := range seeds() {
			if name == "gemma3n" && i > 0 { // its 22 layers are slow
				continue
			}
			t.Run(name+" "+seed, func(t *testing.T) {
				t.Parallel()
				n := need.Value(strconv.ParseUint(seed, 10, 64))(t)
				testArchitecture(t, llmtest.WideStockArchFile(t, name, n), variants)
			})
		}
	}
}

// Their adapters have the same effect in stock llama.cpp.
func TestInteropBeyondRandomAdapters(t *testing.T) {
	for _, name := range beyondRandom {
		if name == "graniteswitch-tied" { // only the output takes adapters, unless it is tied
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testArchitectureAdapters(t, llmtest.WideStockArchFile(t, name, 1))
		})
	}
}

// The tokens of images that we hide in each row of a pass are those that stock llama.cpp hides in its first row.
func TestInteropImageTokens(t *testing.T) {
	path, tokens := llmtest.WideStockArchFile(t, "chameleon", 1), []int32{1, 8200, 5}
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	defer m.Close()
	hidden := func(row []float32) (ids []int) {
		for id, z := range row {
			if z == -math.MaxFloat32 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	want := hidden(stockLogits(t, path, tokens)[0])
	require.Len(t, want, 8192)
	for _, row := range ourLogits(t, m, tokens, nil) {
		require.Equal(t, want, hidden(row))
	}
}
