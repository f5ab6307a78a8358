package arch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
)

// RoPE in local layers has the base and the scale that stock llama.cpp gives it.
func TestRoPEOfLocalLayers(t *testing.T) {
	stretched := map[string]any{"rope.scaling.type": "linear", "rope.scaling.factor": float32(4)}
	none := map[string]any{"rope.scaling.type": "none", "rope.scaling.factor": float32(4)}
	base := map[string]any{"rope.freq_base_swa": float32(500)}
	for _, c := range []struct {
		name        string
		keys        map[string]any
		base, scale float32
	}{
		{"afmoe", base, 500, 1}, {"mellum", base, 500, 1},
		{"gpt-oss", stretched, 10000, 0.25}, {"mimo2", stretched, 10000, 1}, {"muse-glimmer", stretched, 10000, 1},
		{"gpt-oss", none, 10000, 0.25}, {"afmoe", none, 10000, 0.25}, {"mimo2", none, 10000, 1},
	} {
		g := need.Value(ggml.OpenGGUF(llmtest.ArchFile(t, c.name, ggml.F32)))(t)
		defer g.Close()
		require.NoError(t, g.Remove(c.name+".rope.freq_base_swa"))
		for key, value := range c.keys {
			require.NoError(t, g.Set(c.name+"."+key, value))
		}
		config, err := arch.ReadConfig(g)
		require.NoError(t, err, c.name)
		a, err := arch.Resolve(config)
		require.NoError(t, err, c.name)
		locals := 0
		for _, layer := range a.Layers() {
			if part := layer[0].Part.(arch.Attention); part.Window > 0 {
				require.Equal(t, c.base, part.RoPE.FreqBase, "%s %v", c.name, c.keys)
				require.Equal(t, c.scale, part.RoPE.FreqScale, "%s %v", c.name, c.keys)
				locals++
			}
		}
		require.Positive(t, locals, c.name)
		require.NoError(t, config.WriteKeys(g))
		again := need.Value(arch.ReadConfig(g))(t)
		require.Equal(t, config, again)
	}
}

// The type of scaling decides how far grok goes over to YaRN.
func TestExtFactor(t *testing.T) {
	for _, c := range []struct {
		kind   string
		factor float32
		fault  string
	}{
		{"yarn", 1, ""}, {"yarn", -1, ""}, {"linear", 0, ""}, {"linear", -1, ""},
		{"yarn", 0.5, "grok.rope.scaling.yarn_ext_factor is 0.5, which is unsupported; supported: 1"},
		{"linear", 1, "grok.rope.scaling.yarn_ext_factor is 1, which is unsupported; supported: 0"},
	} {
		g, err := ggml.OpenGGUF(llmtest.ArchFile(t, "grok", ggml.F32))
		require.NoError(t, err)
		defer g.Close()
		require.NoError(t, g.Set("grok.rope.scaling.type", c.kind))
		require.NoError(t, g.Set("grok.rope.scaling.yarn_ext_factor", c.factor))
		if _, err = arch.ReadConfig(g); c.fault != "" {
			require.ErrorContains(t, err, c.fault)
			continue
		}
		require.NoError(t, err)
	}
}
