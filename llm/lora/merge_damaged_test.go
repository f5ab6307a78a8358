package lora_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// A value of the base that is not finite is an error in whatever type it would be written, in
// tensors that are copied too; the file that was there stays.
func TestDamagedBaseIsNotWritten(t *testing.T) {
	m := newModel(t, tinyConfig(true), t.Cleanup)
	a := trained(t, m, lora.Options{Rank: 2})
	path := filepath.Join(t.TempDir(), "merged.gguf")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	f32, f16, bf16 := ggml.F32, ggml.F16, ggml.BF16
	for _, name := range []string{"output_norm.weight", "blk.1.attn_q.weight", "token_embd.weight"} {
		w := m.Weight(name)
		good, err := ggml.Read[float32](w)
		require.NoError(t, err)
		for x, text := range map[float64]string{math.Inf(1): "+Inf", math.Inf(-1): "-Inf", math.NaN(): "NaN"} {
			bad := append([]float32(nil), good...)
			bad[len(bad)-2] = float32(x)
			require.NoError(t, ggml.Write(w, bad))
			for _, typ := range []*ggml.Type{nil, &f32, &f16, &bf16} {
				err := lora.MergeTo(context.Background(), path, m, []lora.Scaled{{Adapter: a, Scale: 1}}, lora.MergeOptions{Type: typ})
				require.ErrorContains(t, err, `tensor "`+name+`"`)
				require.ErrorContains(t, err, " of the base is "+text+"; values must be finite: take an undamaged file of the model")
			}
			err = m.Save(path, model.SaveOptions{})
			require.ErrorContains(t, err, `tensor "`+name+`"`)
			require.ErrorContains(t, err, " is "+text+"; values must be finite")
			now := need.Value(os.ReadFile(path))(t)
			require.Equal(t, "old", string(now))
		}
		require.NoError(t, ggml.Write(w, good))
	}
	files := need.Value(os.ReadDir(filepath.Dir(path)))(t)
	require.Len(t, files, 1)
}
