package infer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// In one pass, sequences with different adapters on every matrix of every architecture get the logits that each gets alone, also
// after different numbers of tokens; a sequence in a slot between them stays as it is.
func TestMixedAdapters(t *testing.T) {
	names := llmtest.Architectures()
	if !llmtest.TakesAll() {
		names = llmtest.TestedArchitectures()
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
				testMixedAdapters(t, name, ops)
			}
		})
	}
}

func testMixedAdapters(t *testing.T, name string, ops device.OpSet) {
	m := llmtest.ArchModel(t, name, ggml.F32)
	if !m.Architecture().IsCausal() || !m.Architecture().HasLogits() {
		return // it generates no text
	}
	sets := []model.Adapters{llmtest.NewLoRASetup(t, m, 3, 0.75).Adapters, nil, llmtest.NewLoRASetup(t, m, 2, -0.5).Adapters}
	prompt := llmtest.RandomTokens(3, 12, m.Config().Vocab)
	o := infer.SessionOptions{Context: 32, Batch: 16, Adapters: sets[0]}
	o.Engine = need.Value(device.New(device.Options{Threads: 1, OpSet: ops}))(t)
	t.Cleanup(func() { o.Engine.Close() })
	alone := make([][]float32, len(sets))
	for i, set := range sets {
		single := o
		single.Adapters = set
		q := newSequence(t, m, single)
		decode(t, q, prompt...)
		decode(t, q, prompt[:i+1]...)
		alone[i] = decode(t, q, prompt[i+1])
	}
	o.Sequences = 4
	s := newSession(t, m, o)
	var next []infer.StepInput
	var between *infer.Sequence
	for i, set := range sets {
		if i == 1 {
			between, _ = start(t, s, prompt[:5]...)
		}
		q := need.Value(s.NewSequence())(t)
		if i > 0 {
			require.NoError(t, q.SetAdapters(need.Value(s.NewAdapters(set))(t)))
		}
		_, _, err := q.Prefill(context.Background(), prompt)
		require.NoError(t, err)
		next = append(next, infer.StepInput{Sequence: q, Before: prompt[:i], Token: prompt[i]})
	}
	require.NoError(t, s.Step(context.Background(), next))
	for i := range next {
		next[i].Before, next[i].Token = nil, prompt[i+1]
	}
	require.NoError(t, s.Step(context.Background(), next))
	require.Equal(t, 3, s.Mixed())
	bound := 1e-8
	if llmtest.LooksUpGELU(m.Config().Arch) {
		bound = 1e-7 // a sum in another order changes the input of GELU, which ggml looks up in a table of F16
	}
	for i, n := range next {
		require.Less(t, refmath.NMSE(n.Logits, alone[i]), bound, "%s, sequence %d", ops, i)
	}
	require.Less(t, refmath.NMSE(decode(t, between, prompt[5:]...), decode(t, newSequence(t, m, o), prompt...)), bound)
}
