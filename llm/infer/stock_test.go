package infer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/device"
)

// Graphs of the stock op set use only ops that devices support.
func TestStockGraph(t *testing.T) {
	e := need.Value(device.New(device.Options{Threads: 2, OpSet: device.Stock}))(t)
	defer e.Close()
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.Q8_0)
	d := need.Value(newDecoder(m, SessionOptions{Sequences: 2, Engine: e, Adapters: llmtest.NewLoRASetup(t, m, 4, 1).Adapters}))(t)
	defer d.close()
	for _, tokens := range []int{1, 40} {
		g := need.Value(d.graph(graphShape{slots: 2, tokens: tokens, attended: d.states.attended(tokens)}))(t)
		for node := range g.Nodes() {
			require.Contains(t, []string{
				"view", "reshape", "permute", "get_rows", "set_rows", "mul_mat", "add", "mul", "scale",
				"rms_norm", "rope", "flash_attn_ext", "swiglu",
			}, node.Op())
		}
	}
}
