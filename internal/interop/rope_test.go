//go:build interop

package interop

import (
	"encoding/binary"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/model"
)

// The keys of RoPE scaling have the same effect as in llama.cpp.
func testRoPE(t *testing.T, f files) {
	tokens := make([]int32, 120)
	for i := range tokens {
		tokens[i] = int32(40 + i*i%300)
	}
	plain := stockLogits(t, f.base, tokens)
	for name, keys := range map[string]map[string]any{
		"linear":     {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": float32(4)},
		"old linear": {"llama.rope.scale_linear": float32(2)},
		"yarn":       {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": float32(4), "llama.rope.scaling.original_context_length": uint32(64)},
		"yarn attn":  {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": float32(8), "llama.rope.scaling.attn_factor": float32(0.8)},
		"yarn keys":  {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": float32(4), "llama.rope.scaling.original_context_length": uint32(64), "llama.rope.scaling.yarn_ext_factor": float32(0.5), "llama.rope.scaling.yarn_beta_fast": float32(16), "llama.rope.scaling.yarn_beta_slow": float32(2)},
		"none":       {"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": float32(4)},
		"base":       {"llama.rope.freq_base": float32(500000)},
		"factors":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rope.gguf")
			rewrite(t, f.base, path, keys, name == "factors")
			m := need.Value(model.Load(path, model.LoadOptions{}))(t)
			defer m.Close()
			want := stockLogits(t, path, tokens)
			if name != "none" {
				require.Greater(t, nmse(want, plain), 10*bound, "the keys change something")
			}
			e := nmse(ourLogits(t, m, tokens, nil), want)
			t.Logf("NMSE %.2g", e)
			require.LessOrEqual(t, e, bound)
		})
	}
}

// rewrite copies a model with other keys, and with frequency factors.
func rewrite(t *testing.T, from, to string, keys map[string]any, factors bool) {
	t.Helper()
	g := need.Value(ggml.OpenGGUF(from))(t)
	defer g.Close()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		require.NoError(t, g.Set(key, keys[key]))
	}
	if factors {
		values := make([]float32, 16)
		for i := range values {
			values[i] = 1 + float32(i)/4
		}
		info := ggml.GGUFTensor{Name: "rope_freqs.weight", Type: ggml.F32, Shape: []int64{int64(len(values))}}
		require.NoError(t, g.AddTensorFrom(info, func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, values) }))
	}
	require.NoError(t, g.WriteFile(to))
}
