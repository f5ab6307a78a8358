package arch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
)

// Layers read keys and values of layers that have some for such heads, or the model is refused.
func TestSharedKV(t *testing.T) {
	c := llmtest.ArchModel(t, "gemma4", ggml.F32).Config()
	require.NoError(t, c.Validate())
	var from []arch.LayersBack
	a := need.Value(arch.Resolve(c))(t)
	for _, l := range a.Layers() {
		from = append(from, l[0].Part.(arch.Attention).SharedKV)
	}
	require.Equal(t, []arch.LayersBack{0, 0, 0, 0, 2, 2}, from)
	for layers, want := range map[int]string{
		1:  "layer 5 reads the keys and values of layer 4, which has none with the same heads and window",
		5:  "layer 1 reads the keys and values of layer 0, which has none with the same heads and window",
		6:  "gemma4.attention.shared_kv_layers is 6, but there are 6 layers",
		-1: "gemma4.attention.shared_kv_layers is -1, but there are 6 layers",
	} {
		c.SharedKVLayers = layers
		_, err := arch.Resolve(c)
		require.ErrorIs(t, err, arch.ErrUnsupported)
		require.ErrorContains(t, err, want)
	}
}
