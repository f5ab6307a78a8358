package infer_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
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

// exactEmbedding pools hidden states by the definition.
func exactEmbedding(states [][]float64, o infer.EmbedOptions) []float64 {
	v := make([]float64, len(states[0]))
	switch o.Pooling {
	case infer.PoolLast:
		copy(v, states[len(states)-1])
	case infer.PoolCLS:
		copy(v, states[0])
	default:
		for _, row := range states {
			for i, x := range row {
				v[i] += x / float64(len(states))
			}
		}
	}
	if o.Normalize {
		length := 0.0
		for _, x := range v {
			length = math.Hypot(length, x)
		}
		for i := range v {
			v[i] /= length
		}
	}
	return v
}

// Embeddings of all architectures, with adapters and both op sets, equal the pooled hidden states of
// their graphs in float64: for texts of several lengths, in one pass or several, with and without an
// open sequence.
func TestEmbedAgainstReference(t *testing.T) {
	for _, arch := range llmtest.TestedArchitectures() {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			bound := 1e-11
			if llmtest.LooksUpGELU(arch) { // ggml's table of GELU rounds its input to F16
				bound = 1e-7
			}
			m := need.Value(model.Load(llmtest.ArchFile(t, arch, ggml.F32), model.LoadOptions{}))(t)
			t.Cleanup(func() { m.Close() })
			if llmtest.DividesByLength(m) {
				bound = 1e-9
			}
			s := llmtest.NewLoRASetup(t, m, 3, 0.75)
			const room = llmtest.LongContext + 5
			var texts [][]int32
			var states [][][]float64
			for i, length := range []int{4, llmtest.LongContext, 1, 17, 18} {
				texts = append(texts, llmtest.RandomTokens(uint64(i), length, m.Config().Vocab))
				states = append(states, llmtest.ExactHidden(t, m, s.Adapters, texts[i], room))
			}
			for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
				e := need.Value(device.New(device.Options{Threads: 1, OpSet: ops}))(t)
				defer e.Close()
				for _, sequences := range []int{1, 3} {
					session := newSession(t, m, infer.SessionOptions{Sequences: sequences, Adapters: s.Adapters, Batch: 16, Context: room, Engine: e})
					for _, o := range []infer.EmbedOptions{{}, {Pooling: infer.PoolLast}, {Pooling: infer.PoolCLS, Normalize: true}, {Pooling: infer.PoolMean, Normalize: true}} {
						got := need.Value(session.Embed(context.Background(), texts, o))(t)
						for i := range texts {
							require.Less(t, refmath.NMSE(got[i], exactEmbedding(states[i], o)), bound, "%s, %d sequences, %+v, text %d", ops, sequences, o, i)
						}
						require.Equal(t, sequences, session.Free())
					}
					require.False(t, session.UsesWeight(headOf(m)))
				}
			}
		})
	}
}

// headOf returns the name of the output matrix; an unknown name if it is tied to the embedding.
func headOf(m *model.Model) string {
	if m.Config().Tied {
		return "unknown.weight"
	}
	return "output.weight"
}

// Embed does not change the sequences of a session, and frees the slots that it uses.
func TestEmbedBesideSequences(t *testing.T) {
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	text := [][]int32{{1, 2, 3}, {4}}
	alone := newSession(t, m, infer.SessionOptions{Context: 32})
	want := need.Value(alone.Embed(context.Background(), text, infer.EmbedOptions{}))(t)
	q := addSequence(t, alone)
	rows := [][]float32{decode(t, q, 5, 6), decode(t, q, 7)}

	s := newSession(t, m, infer.SessionOptions{Context: 32, Sequences: 4})
	_, second := addSequence(t, s), addSequence(t, s)
	require.Less(t, refmath.NMSE(decode(t, second, 5, 6), rows[0]), 1e-11)
	got := need.Value(s.Embed(context.Background(), text, infer.EmbedOptions{}))(t)
	for i := range want {
		require.Less(t, refmath.NMSE(got[i], want[i]), 1e-11)
	}
	require.Less(t, refmath.NMSE(decode(t, second, 7), rows[1]), 1e-11)
	third, logits := start(t, s, 5, 6, 7) // in a slot that Embed used
	require.Less(t, refmath.NMSE(logits, rows[1]), 1e-11)
	require.NoError(t, third.Close())
}

// Steps of any size give the vectors of Embed, beside sequences that move and with adapters; a text that is too long for a step
// keeps one slot until Close.
func TestEncodingSteps(t *testing.T) {
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	setup := llmtest.NewLoRASetup(t, m, 3, 0.75)
	texts := [][]int32{llmtest.RandomTokens(1, 5, 30), llmtest.RandomTokens(2, 20, 30), {3}}
	ctx := context.Background()
	want := need.Value(newSession(t, m, infer.SessionOptions{Context: 32, Adapters: setup.Adapters}).Embed(ctx, texts, infer.EmbedOptions{}))(t)
	s := newSession(t, m, infer.SessionOptions{Context: 32, Sequences: 4})
	a := need.Value(s.NewAdapters(setup.Adapters))(t)
	_, second := addSequence(t, s), addSequence(t, s)
	for _, n := range []int{1, 3, 7, 50} {
		e := need.Value(s.NewEncoding(texts, infer.EmbedOptions{Adapters: a}))(t)
		_, err := e.Vectors(ctx)
		require.ErrorContains(t, err, "call Step until it is done")
		for steps := 0; ; steps++ {
			done := need.Value(e.Step(ctx, n))(t)
			if decode(t, second, 5); done {
				require.GreaterOrEqual(t, steps+1, 26/(n+3))
				break
			}
		}
		require.Equal(t, 2, s.Free())
		got := need.Value(e.Vectors(ctx))(t)
		for i := range want {
			require.Less(t, refmath.NMSE(got[i], want[i]), 1e-11)
		}
		need.Value(second.Rewind(0))(t)
	}
	e := need.Value(s.NewEncoding(texts, infer.EmbedOptions{}))(t)
	need.Value(e.Step(ctx, 3))(t)
	require.Equal(t, 1, s.Free())
	require.NoError(t, e.Close())
	require.Equal(t, 2, s.Free())
	_, err := e.Step(ctx, 0)
	require.EqualError(t, err, "a step cannot compute 0 tokens")
	require.NoError(t, a.Close())
	_, err = s.NewEncoding(texts, infer.EmbedOptions{Adapters: a})
	require.ErrorIs(t, err, ggml.ErrClosed)
	for _, e := range []*infer.Encoding{nil, {}} {
		_, err := e.Step(ctx, 1)
		require.Error(t, err)
		_, err = e.Vectors(ctx)
		require.Error(t, err)
		require.NoError(t, e.Close())
	}
}

// PoolByModel is the pooling in the model's file.
func TestPoolingOfModel(t *testing.T) {
	path := llmtest.ArchFile(t, "llama", ggml.F32)
	text := [][]int32{{1, 2, 3, 4, 5}}
	for value, want := range map[any]infer.Pooling{nil: infer.PoolMean, uint32(0): infer.PoolMean, uint32(1): infer.PoolMean, uint32(2): infer.PoolCLS, uint32(3): infer.PoolLast} {
		edited := filepath.Join(t.TempDir(), "model.gguf")
		g := need.Value(ggml.OpenGGUF(path))(t)
		if value != nil {
			require.NoError(t, g.Set("llama.pooling_type", value))
		}
		require.NoError(t, g.WriteFile(edited))
		require.NoError(t, g.Close())
		m := need.Value(model.Load(edited, model.LoadOptions{}))(t)
		defer m.Close()
		s := newSession(t, m, infer.SessionOptions{Context: 32})
		got := need.Value(s.Embed(context.Background(), text, infer.EmbedOptions{}))(t)
		wanted := need.Value(s.Embed(context.Background(), text, infer.EmbedOptions{Pooling: want}))(t)
		require.Equal(t, wanted, got, "%v", value)
	}
}

func TestEmbedErrors(t *testing.T) {
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	s := newSession(t, m, infer.SessionOptions{Context: 8})
	ctx := context.Background()
	vectors := need.Value(s.Embed(ctx, nil, infer.EmbedOptions{}))(t)
	require.Empty(t, vectors)
	for _, c := range []struct {
		texts [][]int32
		o     infer.EmbedOptions
		want  string
	}{
		{[][]int32{{1}, {}}, infer.EmbedOptions{}, "text 2: there are no tokens to decode"},
		{[][]int32{{-1}}, infer.EmbedOptions{}, fmt.Sprintf("text 1: token 0 is -1; the vocabulary has %d", m.Config().Vocab)},
		{[][]int32{make([]int32, 9)}, infer.EmbedOptions{}, "text 1: the context is full: no room for 9 tokens at position 0 of a context of 8; use a larger context or a shorter text"},
		{[][]int32{{1}}, infer.EmbedOptions{Pooling: "rank"}, `there is no pooling "rank"; use mean, last or cls`},
	} {
		_, err := s.Embed(ctx, c.texts, c.o)
		require.EqualError(t, err, c.want)
	}
	plain := need.Value(model.New(m.Config(), nil, 1))(t)
	defer plain.Close()
	norm := plain.Weight("output_norm.weight")
	values := make([]float32, norm.NumElements())
	values[3] = float32(math.Inf(1))
	require.NoError(t, ggml.Write(norm, values))
	_, err := newSession(t, plain, infer.SessionOptions{Context: 8}).Embed(ctx, [][]int32{{1}}, infer.EmbedOptions{})
	require.ErrorContains(t, err, "text 1: its embedding contains ")
	require.ErrorContains(t, err, ": the weights or adapters of the model may be damaged")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.Embed(cancelled, [][]int32{{1}}, infer.EmbedOptions{})
	require.ErrorIs(t, err, context.Canceled)
	addSequence(t, s)
	_, err = s.Embed(ctx, [][]int32{{1}}, infer.EmbedOptions{})
	require.ErrorIs(t, err, infer.ErrSessionFull)
	_, err = (*infer.Session)(nil).Embed(ctx, nil, infer.EmbedOptions{})
	require.EqualError(t, err, "the session is nil")
	require.NoError(t, s.Close())
	_, err = s.Embed(ctx, nil, infer.EmbedOptions{})
	require.ErrorIs(t, err, ggml.ErrClosed)
}
