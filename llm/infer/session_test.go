package infer_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// The logits of all positions agree with the float64 graph, with adapters on
// every matrix and a tied or separate output matrix.
func TestSessionAgainstReference(t *testing.T) {
	for _, tied := range []bool{false, true} {
		t.Run(fmt.Sprint("tied ", tied), func(t *testing.T) {
			const scale = 0.75
			m := llmtest.TinyModel(t, llmtest.TinyConfig(tied), ggml.F32)
			s := llmtest.NewLoRASetup(t, m, 4, scale)
			tokens := llmtest.RandomTokens(5, 40, m.Config().Vocab)
			want := slices.Concat(llmtest.ExactLogits(t, m, s.Adapters, tokens, m.Config().Context)...)
			got := flat(t, newSequence(t, m, infer.SessionOptions{Adapters: s.Adapters, Batch: 16}), tokens)
			require.Less(t, refmath.NMSE(got, want), 1e-11)
		})
	}
}

// Decoding token by token gives the logits of one batch, also beyond the length where
// the graph attends to more positions of the cache.
func TestSessionStepByStep(t *testing.T) {
	need.Time(t, "each length of a sequence")
	const rounded = 0 // activations are rounded to 8 bits: see roundingError
	for _, c := range []struct {
		weights, cache ggml.Type
		nmse           float64
	}{
		{ggml.F32, ggml.F32, 1e-11},
		{ggml.F32, ggml.F16, 1e-5},
		{ggml.F32, ggml.BF16, 1e-4},
		{ggml.F32, ggml.Q8_0, 1e-4},
		{ggml.F16, ggml.F16, 1e-5},
		{ggml.Q8_0, ggml.F32, rounded},
	} {
		t.Run(fmt.Sprintf("%v, cache %v", c.weights, c.cache), func(t *testing.T) {
			m := llmtest.GoldenModel(t, c.weights)
			tokens := llmtest.RandomTokens(1, 300, m.Config().Vocab)
			exact := flat(t, newSequence(t, m, infer.SessionOptions{}), tokens)
			bound := c.nmse
			if bound == rounded {
				bound = 2 * roundingError(t, m) // both the steps and the reference have the error
			}
			s := newSequence(t, m, infer.SessionOptions{CacheType: c.cache})
			var steps []float32
			logits := make([]float32, m.Config().Vocab)
			for i, token := range tokens {
				require.Equal(t, i, s.Len())
				require.NoError(t, s.DecodeInto(context.Background(), logits, []int32{token}))
				steps = append(steps, logits...)
			}
			require.LessOrEqual(t, refmath.NMSE(steps, exact), bound)
			batches := flat(t, newSequence(t, m, infer.SessionOptions{CacheType: c.cache, Batch: 100}), tokens)
			require.LessOrEqual(t, refmath.NMSE(batches, exact), bound)
		})
	}
}

// roundingError returns the error that stock llama.cpp's rounding of x to 8 bits makes in the
// logits of a golden model in Q8_0.
func roundingError(t testing.TB, m *model.Model) float64 {
	exact := flat(t, newSequence(t, llmtest.Dequantised(t, m), infer.SessionOptions{}), llmtest.GoldenTokens(t))
	return refmath.NMSE(llmtest.GoldenLogits(t, ggml.Q8_0.String()), exact)
}

// The logits depend on the tokens of a sequence, not on its history.
func TestSessionHistory(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	fresh := newSequence(t, m, infer.SessionOptions{Context: 300})
	s := newSequence(t, m, infer.SessionOptions{Context: 300, Batch: 32})
	rapid.Check(t, func(r *rapid.T) {
		rewind(r, s, 0)
		var sequence []int32
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			keep := rapid.IntRange(0, len(sequence)).Draw(r, "keep")
			if rapid.Bool().Draw(r, "truncate") {
				rewind(r, s, keep)
				sequence = sequence[:keep]
			}
			n := rapid.IntRange(1, 50).Draw(r, "tokens")
			more := llmtest.RandomTokens(rapid.Uint64().Draw(r, "seed"), n, m.Config().Vocab)
			sequence = append(sequence, more...)
			got := need.Value(s.Decode(context.Background(), more))(r)
			require.Equal(r, len(sequence), s.Len())
			rewind(r, fresh, 0)
			want := need.Value(fresh.Decode(context.Background(), sequence))(r)
			require.Less(r, refmath.NMSE(got, want), 1e-11)
		}
	})
}

func TestSessionRepeats(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.Q8_0)
	tokens := llmtest.GoldenTokens(t)
	plain := flat(t, newSequence(t, m, infer.SessionOptions{}), tokens)

	t.Run("bit for bit", func(t *testing.T) {
		s := newSequence(t, m, infer.SessionOptions{})
		for range 5 {
			require.Equal(t, plain, flat(t, s, tokens))
			rewind(t, s, 0)
		}
	})
	t.Run("an adapter of scale 0 changes no bit", func(t *testing.T) {
		s := newSequence(t, m, infer.SessionOptions{Adapters: llmtest.GoldenAdapters(t, 0)})
		require.Equal(t, plain, flat(t, s, tokens))
	})
	t.Run("an adapter of scale 1 does", func(t *testing.T) {
		s := newSequence(t, m, infer.SessionOptions{Adapters: llmtest.GoldenAdapters(t, 1)})
		require.NotEqual(t, plain, flat(t, s, tokens))
	})
	t.Run("the last token alone has the same logits", func(t *testing.T) {
		s := newSequence(t, m, infer.SessionOptions{})
		last := plain[len(plain)-m.Config().Vocab:]
		require.Less(t, refmath.NMSE(decode(t, s, tokens...), last), 1e-5)
	})
	t.Run("sessions share an engine", func(t *testing.T) {
		e := llmtest.NewEngine(t)
		a := newSequence(t, m, infer.SessionOptions{Engine: e})
		b := newSequence(t, m, infer.SessionOptions{Engine: e})
		for _, token := range tokens[:10] {
			require.Equal(t, decode(t, a, token), decode(t, b, token))
		}
	})
}

func TestSessionErrors(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	ctx := context.Background()
	s := newSequence(t, m, infer.SessionOptions{Context: 20})
	want := decode(t, s, 1, 2, 3)

	_, err := s.Decode(ctx, make([]int32, 18))
	require.ErrorIs(t, err, infer.ErrContextFull)
	require.EqualError(t, err, "the context is full: no room for 18 tokens at position 3 of a context of 20; use a larger context or a shorter text")
	_, err = s.Decode(ctx, []int32{1, 96})
	require.EqualError(t, err, "token 1 is 96; the vocabulary has 96")
	_, err = s.Decode(ctx, []int32{-1})
	require.EqualError(t, err, "token 0 is -1; the vocabulary has 96")
	_, err = s.DecodeAll(ctx, nil)
	require.EqualError(t, err, "there are no tokens to decode")
	err = s.DecodeInto(ctx, make([]float32, 95), []int32{1})
	require.EqualError(t, err, "the slice must hold the logits of 96 tokens; it has room for 95")
	_, _, err = s.Prefill(ctx, nil)
	require.EqualError(t, err, "there are no tokens to decode")
	_, _, err = s.Prefill(ctx, make([]int32, 21))
	require.ErrorIs(t, err, infer.ErrContextFull)
	for _, n := range []int{4, -1} {
		at, err := s.Rewind(n)
		require.EqualError(t, err, fmt.Sprintf("a sequence of 3 tokens cannot be rewound to %d", n))
		require.Equal(t, 3, at)
	}
	require.Equal(t, 3, s.Len())
	require.Equal(t, 20, s.Context())

	decode(t, s, make([]int32, 17)...) // the rest fits
	rewind(t, s, 0)
	require.Equal(t, want, decode(t, s, 1, 2, 3))

	session := s.Session()
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Decode(ctx, []int32{1})
	require.EqualError(t, err, "sequence: use of a closed object")
	other := addSequence(t, session)
	require.NoError(t, s.Close())
	require.Equal(t, want, decode(t, other, 1, 2, 3), "the room of a sequence that was closed, once")
	require.NoError(t, session.Close())
	require.NoError(t, session.Close())
	_, err = other.Decode(ctx, []int32{1})
	require.EqualError(t, err, "session: use of a closed object")
	_, err = session.NewSequence()
	require.ErrorIs(t, err, ggml.ErrClosed)
	require.ErrorIs(t, session.Step(ctx, []infer.StepInput{{Sequence: other}}), ggml.ErrClosed)
	require.Zero(t, session.Free())
	require.NoError(t, other.Close())
}

func TestNewSessionErrors(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	store := llmtest.NewArena(t)
	a := store.Tensor("a", make([]float32, 4*64), 64, 4)
	b := store.Tensor("b", make([]float32, 4*64), 4, 64)
	for _, c := range []struct {
		name string
		o    infer.SessionOptions
		err  string
	}{
		{"sequences", infer.SessionOptions{Sequences: -1}, "a session cannot have -1 sequences; it has 1 to 65536"},
		{"many sequences", infer.SessionOptions{Sequences: math.MaxInt}, "a session cannot have 9223372036854775807 sequences; it has 1 to 65536"},
		{"memory", infer.SessionOptions{Sequences: 65536, Context: math.MaxInt32}, "a KV cache of 140737488289792 positions: "},
		{"context", infer.SessionOptions{Context: -1}, "a context cannot have -1 tokens"},
		{"block", infer.SessionOptions{CacheType: ggml.Q8_0}, "a KV cache of type q8_0 needs heads of a multiple of 32 elements, but this model has heads of 16: use f16 or f32"},
		{"type", infer.SessionOptions{CacheType: ggml.I32}, "a KV cache cannot have type i32; use f16, f32 or q8_0"},
		{"threads", infer.SessionOptions{Threads: -3}, "-3 threads"},
		{"target", infer.SessionOptions{Adapters: model.Adapters{"blk.7.attn_q.weight": {{A: a, B: b, Scale: 1}}}}, "an adapter is for blk.7.attn_q.weight, which the model does not have; it was made for another model"},
		{"shape", infer.SessionOptions{Adapters: model.Adapters{"blk.1.attn_k.weight": {{A: a, B: b, Scale: 1}}}}, "an adapter of blk.1.attn_k.weight has A [64 4] and B [4 64] instead of [64 4] and [4 32]; it was made for another model"},
		{"scale NaN", infer.SessionOptions{Adapters: model.Adapters{"blk.1.attn_q.weight": {{A: a, B: b, Scale: float32(math.NaN())}}}}, "an adapter of blk.1.attn_q.weight has the scale NaN; it must be finite"},
		{"scale Inf", infer.SessionOptions{Adapters: model.Adapters{"blk.1.attn_q.weight": {{A: a, B: b, Scale: float32(math.Inf(-1))}}}}, "an adapter of blk.1.attn_q.weight has the scale -Inf; it must be finite"},
		{"nil", infer.SessionOptions{Adapters: model.Adapters{"blk.1.attn_q.weight": {{A: a, Scale: 1}}}}, "an adapter of blk.1.attn_q.weight lacks A or B"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := infer.NewSession(m, c.o)
			require.ErrorContains(t, err, c.err)
			if c.name != "memory" && c.name != "threads" { // an estimate allocates no memory and has no threads
				require.ErrorContains(t, infer.AddEstimate(estimate.New(), m, c.o), c.err)
			}
		})
	}
}

// A cancelled decode leaves the sequence as it was.
func TestSessionCancel(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.F32)
	tokens := llmtest.RandomTokens(2, 500, m.Config().Vocab)
	s := newSequence(t, m, infer.SessionOptions{Batch: 100})
	decode(t, s, tokens[:5]...)
	want := decode(t, s, tokens[5:]...)

	cancelled := 0
	for delay := time.Duration(0); cancelled < 5; delay += 500 * time.Microsecond {
		rewind(t, s, 5)
		ctx, cancel := context.WithTimeout(context.Background(), delay)
		got, err := s.Decode(ctx, tokens[5:])
		cancel()
		if err == nil { // it ended before the deadline
			require.Equal(t, want, got)
			break
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 5, s.Len())
		cancelled++
	}
	require.Positive(t, cancelled)
	rewind(t, s, 5)
	require.Equal(t, want, decode(t, s, tokens[5:]...))
}

// A token whose embedding is NaN spoils the tokens after it, but nothing once the sequence
// is rewound.
func TestSessionForgetsNaN(t *testing.T) {
	m := need.Value(model.New(llmtest.TinyConfig(false), nil, 1))(t)
	defer m.Close()
	w := m.Weight("token_embd.weight")
	values := need.Value(ggml.Read[float32](w))(t)
	for i := range m.Config().Embd {
		values[50*m.Config().Embd+i] = float32(math.NaN())
	}
	require.NoError(t, ggml.Write(w, values))
	s := newSequence(t, m, infer.SessionOptions{})
	want := decode(t, s, 1, 2, 3)
	rewind(t, s, 2)
	require.True(t, math.IsNaN(float64(decode(t, s, 50, 50, 4)[0])))
	rewind(t, s, 2)
	got := decode(t, s, 3)
	require.Less(t, refmath.NMSE(got, want), 1e-11)
}

// Sessions with separate engines run concurrently.
func TestSessionsInParallel(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.Q4_0)
	want := decode(t, newSequence(t, m, infer.SessionOptions{Threads: 1}), llmtest.GoldenTokens(t)...)
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			s := newSequence(t, m, infer.SessionOptions{Threads: 1})
			for range 3 {
				require.Equal(t, want, decode(t, s, llmtest.GoldenTokens(t)...))
				rewind(t, s, 0)
			}
		})
	}
}

// benchModel has 28 million parameters.
func benchModel(b *testing.B, typ ggml.Type) *model.Model {
	made := need.Value(model.New(arch.Config{
		Arch: "llama", Vocab: 8192, Context: 1024, Embd: 512, FF: 1536, Layers: 8, Heads: 8, KVHeads: 4, HeadSize: 64,
		RMSEps: 1e-5, Tied: true,
		RoPE: ggml.RoPE{Dims: 64, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 1024, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 1))(b)
	defer made.Close()
	path := filepath.Join(b.TempDir(), "bench.gguf")
	require.NoError(b, made.Save(path, model.SaveOptions{Type: func(name string, old ggml.Type) ggml.Type {
		if made.Weight(name).NumDims() < 2 {
			return old
		}
		return typ
	}}))
	m := need.Value(model.Load(path, model.LoadOptions{}))(b)
	b.Cleanup(func() { m.Close() })
	return m
}

func BenchmarkSession(b *testing.B) {
	for _, typ := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_K} {
		b.Run(typ.String(), func(b *testing.B) {
			m := benchModel(b, typ)
			for _, cache := range []ggml.Type{ggml.F32, ggml.F16} {
				o := infer.SessionOptions{CacheType: cache, Threads: 2}
				b.Run("prompt512/cache"+cache.String(), func(b *testing.B) { benchDecode(b, m, o, 0, 512) })
				b.Run("token/cache"+cache.String(), func(b *testing.B) { benchDecode(b, m, o, 256, 1) })
			}
		})
	}
}

// benchDecode decodes n tokens after a prompt of past tokens.
func benchDecode(b *testing.B, m *model.Model, o infer.SessionOptions, past, n int) {
	s := newSequence(b, m, o)
	tokens := llmtest.RandomTokens(1, max(past, n), m.Config().Vocab)
	if past > 0 {
		decode(b, s, tokens[:past]...)
	}
	decode(b, s, tokens[:n]...)
	b.ResetTimer()
	for range b.N {
		if s.Len()+n > s.Context() || n > 1 {
			rewind(b, s, past)
		}
		decode(b, s, tokens[:n]...)
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tokens/s")
}

// NewSession returns an error for closed or nil arguments.
func TestSessionOfClosedObjects(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	e := llmtest.NewEngine(t)
	require.NoError(t, e.Close())
	_, err := infer.NewSession(m, infer.SessionOptions{Engine: e})
	require.EqualError(t, err, "engine: use of a closed object")
	require.ErrorIs(t, err, ggml.ErrClosed)
	require.NoError(t, m.Close())
	_, err = infer.NewSession(m, infer.SessionOptions{})
	require.ErrorIs(t, err, ggml.ErrClosed)
	_, err = infer.NewSession(nil, infer.SessionOptions{})
	require.EqualError(t, err, "the model is nil")
}

// Methods of nil and zero values return an error or zero.
func TestZeroValues(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		s    *infer.Session
		q    *infer.Sequence
		says [2]string
	}{
		{nil, nil, [2]string{"the session is nil", "the sequence is nil"}},
		{&infer.Session{}, &infer.Sequence{}, [2]string{"the session is a zero value; NewSession makes one: ", "the sequence is a zero value; NewSequence makes one: "}},
	} {
		_, err := c.s.NewSequence()
		require.ErrorContains(t, err, c.says[0])
		require.ErrorContains(t, c.s.Step(ctx, nil), c.says[0])
		require.NoError(t, c.s.Close())
		require.Zero(t, c.s.Context())
		require.Zero(t, c.s.Free())
		_, err = c.q.Decode(ctx, []int32{1})
		require.ErrorContains(t, err, c.says[1])
		_, err = c.q.DecodeAll(ctx, []int32{1})
		require.ErrorContains(t, err, c.says[1])
		require.ErrorContains(t, c.q.DecodeInto(ctx, nil, []int32{1}), c.says[1])
		_, _, err = c.q.Prefill(ctx, []int32{1})
		require.ErrorContains(t, err, c.says[1])
		_, err = c.q.Rewind(0)
		require.ErrorContains(t, err, c.says[1])
		require.NoError(t, c.q.Close())
		require.Zero(t, c.q.Len())
		require.Zero(t, c.q.Context())
		require.Nil(t, c.q.Session())
		require.Empty(t, c.q.Tokens())
	}
	_, err := (&infer.Session{}).NewSequence()
	require.ErrorIs(t, err, ggml.ErrZeroValue)
	_, err = (&infer.Sequence{}).Rewind(0)
	require.ErrorIs(t, err, ggml.ErrZeroValue)
}
