package arch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
)

// Layers that predict tokens after the next are behind the others, and nothing of a model but weights that nobody
// computes with.
func TestNextLayers(t *testing.T) {
	c := llmtest.ArchModel(t, "qwen35", ggml.F32).Config()
	require.NoError(t, c.Validate())
	without := need.Value(arch.Resolve(c))(t)
	for _, recurrent := range [][]bool{nil, {false, true, true, false}} {
		c.NextLayers, c.Recurrent = 2, recurrent
		require.NoError(t, c.Validate())
		a := need.Value(arch.Resolve(c))(t)
		require.Len(t, a.Layers(), len(without.Layers()))
		require.Nil(t, without.Weight("blk.5.nextn.eh_proj.weight"))
		require.Equal(t, arch.Unused, a.Weight("blk.5.nextn.eh_proj.weight").Role)
		g := need.Value(ggml.NewGGUF())(t)
		defer g.Close()
		require.NoError(t, c.WriteKeys(g))
		blocks := need.Value(ggml.GGUFValue[uint32](g, "qwen35.block_count"))(t)
		require.EqualValues(t, c.Layers+2, blocks)
		_, isDelta := a.Layers()[0][0].Part.(arch.DeltaNet)
		require.Equal(t, recurrent == nil, isDelta)
	}
}

// What does not fit together is named by its key.
func TestDeltaNetFaults(t *testing.T) {
	c := llmtest.ArchModel(t, "qwen35moe", ggml.F32).Config()
	for want, change := range map[string]func(c *arch.Config){
		"qwen35moe.ssm.group_count: 4 heads cannot share the queries and keys of 3 heads": func(c *arch.Config) { c.StateKHeads = 3 },
		"qwen35moe.ssm.inner_size is 63, not 4 heads times 16 elements":                   func(c *arch.Config) { c.Inner = 63 },
		"qwen35moe.ssm.state_size is -1":                                                  func(c *arch.Config) { c.StateSize = -1 },
		"qwen35moe.attention.recurrent_layers has 1 values for 4 layers":                  func(c *arch.Config) { c.Recurrent = []bool{true} },
	} {
		changed := c
		change(&changed)
		_, err := arch.Resolve(changed)
		require.ErrorContains(t, err, want)
	}
}
