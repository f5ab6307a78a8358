package lossgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lossgraph"
)

// Attention goes by blocks of queries: these sequences have several.
func TestLongSequences(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	for _, checkpoint := range []bool{false, true} {
		requireWeightGradients(t, m, 140, checkpoint)
	}
}

// With checkpoints, or without, memory grows with the number of tokens and no
// faster.
func TestMemoryIsLinear(t *testing.T) {
	c := llmtest.TinyConfig(false)
	c.Context = 16384
	m := llmtest.TinyModel(t, c, ggml.Q8_0)
	e := llmtest.NewEngine(t)
	for _, checkpoint := range []bool{false, true} {
		memory := func(length int) float64 {
			store := llmtest.NewArena(t)
			const name = "blk.0.attn_q.weight"
			grad := store.Tensor(name, make([]float32, c.Embd*c.Embd), int64(c.Embd), int64(c.Embd))
			l := need.Value(lossgraph.New(m, e, lossgraph.Options{Length: length, Batch: 1, Grads: map[*ggml.Tensor]*ggml.Tensor{m.Weight(name): grad}, Checkpoint: checkpoint}))(t)
			defer l.Close()
			require.NoError(t, l.Allocate())
			return float64(l.Memory().Total())
		}
		perToken := memory(2048) / 2048
		for _, n := range []int{4096, 16384} {
			require.Less(t, memory(n)/float64(n), 1.1*perToken, "%d tokens", n)
		}
	}
}
