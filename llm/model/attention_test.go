package model_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/llm/model"
)

// Sequences of several blocks of queries have the gradients of the float64 model.
func TestLongSequences(t *testing.T) {
	m := tinyModel(t, tinyConfig(false), ggml.F32)
	ref := reference(t, m)
	const length = 140
	batch, sequences := testBatch(m.Vocab, length)
	var names []string
	for _, s := range m.Config.Tensors() {
		names = append(names, s.Name)
	}
	loss, grads, err := ref.Gradient(sequences, names...)
	require.NoError(t, err)
	for _, checkpoint := range []bool{false, true} {
		store := newArena(t)
		trained := map[string]*ggml.Tensor{}
		for _, s := range m.Config.Tensors() {
			trained[s.Name] = store.tensor(s.Name+".grad", make([]float32, m.Weight(s.Name).NumElements()), s.Shape...)
		}
		l, err := m.NewLossGraph(model.PassOptions{Length: length, Batch: 2, Trained: trained, Checkpoint: checkpoint})
		require.NoError(t, err)
		defer l.Close()
		losses, err := l.Compute(context.Background(), testEngine(t), batch)
		require.NoError(t, err)
		require.InEpsilon(t, loss, weightedLoss(batch, losses), 1e-5)
		for name, acc := range trained {
			got, err := ggml.Read[float32](acc)
			require.NoError(t, err)
			require.Less(t, refmath.RelativeError(got, grads[name].Data), 1e-4, name)
		}
	}
}

// With checkpoints, or without, memory grows with the number of tokens and no
// faster.
func TestMemoryIsLinear(t *testing.T) {
	c := tinyConfig(false)
	c.Context = 16384
	m := tinyModel(t, c, ggml.Q8_0)
	e := testEngine(t)
	for _, checkpoint := range []bool{false, true} {
		memory := func(length int) float64 {
			store := newArena(t)
			const name = "blk.0.attn_q.weight"
			grad := store.tensor(name, make([]float32, c.Embd*c.Embd), int64(c.Embd), int64(c.Embd))
			l, err := m.NewLossGraph(model.PassOptions{Length: length, Batch: 1, Trained: map[string]*ggml.Tensor{name: grad}, Checkpoint: checkpoint})
			require.NoError(t, err)
			defer l.Close()
			require.NoError(t, l.Allocate(e))
			return float64(l.Memory())
		}
		perToken := memory(2048) / 2048
		for _, n := range []int{4096, 16384} {
			require.Less(t, memory(n)/float64(n), 1.1*perToken, "%d tokens", n)
		}
	}
}
