package infer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/llm/device"
)

// Graphs of the stock op set use only ops that devices support.
func TestStockGraph(t *testing.T) {
	e, err := device.New(device.Options{Threads: 2, OpSet: device.Stock})
	require.NoError(t, err)
	defer e.Close()
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.Q8_0)
	d, err := newDecoder(m, SessionOptions{Sequences: 2, Engine: e, Adapters: llmtest.NewLoRASetup(t, m, 4, 1).Adapters})
	require.NoError(t, err)
	defer d.close()
	for _, tokens := range []int{1, 40} {
		g, err := d.graph(graphShape{slots: 2, tokens: tokens, attended: d.states.attended(tokens)})
		require.NoError(t, err)
		for node := range g.Nodes() {
			require.Contains(t, []string{
				"view", "reshape", "permute", "get_rows", "set_rows", "mul_mat", "add", "mul", "scale",
				"rms_norm", "rope", "flash_attn_ext", "swiglu",
			}, node.Op())
		}
	}
}
