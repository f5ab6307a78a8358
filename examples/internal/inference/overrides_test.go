package inference

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// writeModel writes a random model with a vocabulary.
func writeModel(t *testing.T, path string) {
	c := need.Value(tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257}))(t)
	tok := need.Value(tokenizer.New(c))(t)
	m := need.Value(model.New(arch.Config{
		Arch: "llama", Vocab: 257, Context: 16, Embd: 8, FF: 8, Layers: 1, Heads: 1, KVHeads: 1, HeadSize: 8, RMSEps: 1e-5, Tied: true,
		RoPE: ggml.RoPE{Dims: 8, FreqBase: 10000, FreqScale: 1, TrainedCtx: 16, AttnFactor: 1},
	}, tok, 1))(t)
	defer m.Close()
	require.NoError(t, m.Save(path, model.SaveOptions{}))
}

// Flags change a model as the same values in its file do.
func TestOverridesAreKeysOfTheFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a.gguf")
	writeModel(t, path)
	for i, c := range []struct {
		flags Overrides
		keys  map[string]any
		args  string
		llama string
	}{
		{},
		{Overrides{NormRMSEps: testutil.Ptr[float32](1e-3)}, map[string]any{"llama.attention.layer_norm_rms_epsilon": float32(1e-3)}, "--norm-rms-eps 0.001", "--override-kv llama.attention.layer_norm_rms_epsilon=float:0.001"},
		{Overrides{FreqBase: testutil.Ptr[float32](500)}, map[string]any{"llama.rope.freq_base": float32(500)}, "--rope-freq-base 500", "--rope-freq-base 500"},
		{
			Overrides{FreqScale: testutil.Ptr[float32](0.25)}, map[string]any{"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": float32(4)},
			"--rope-freq-scale 0.25", "--rope-freq-scale 0.25",
		},
		{
			Overrides{NormRMSEps: testutil.Ptr[float32](2), FreqBase: testutil.Ptr[float32](3), FreqScale: testutil.Ptr[float32](1)}, map[string]any{"llama.attention.layer_norm_rms_epsilon": float32(2), "llama.rope.freq_base": float32(3)},
			"--norm-rms-eps 2 --rope-freq-base 3 --rope-freq-scale 1",
			"--override-kv llama.attention.layer_norm_rms_epsilon=float:2 --rope-freq-base 3 --rope-freq-scale 1",
		},
	} {
		g := need.Value(ggml.OpenGGUF(path))(t)
		for key, value := range c.keys {
			require.NoError(t, g.Set(key, value))
		}
		edited := filepath.Join(folder, fmt.Sprintf("edited-%d.gguf", i))
		require.NoError(t, g.WriteFile(edited))
		require.NoError(t, g.Close())

		load := func(path string, o Overrides) arch.Config {
			f := SessionFlags{ModelFlags: ModelFlags{Model: path, Overrides: o, Threads: 1}, CacheType: "f16"}
			m := need.Value(f.Load(1))(t)
			defer m.Close()
			return m.Config()
		}
		require.Equal(t, load(edited, Overrides{}), load(path, c.flags), "%+v", c.flags)
		require.Equal(t, c.args, strings.Join(c.flags.Args(), " "))
		require.Equal(t, c.llama, strings.Join(c.flags.LlamaArgs("llama"), " "))
	}
}
