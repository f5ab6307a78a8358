package infer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// windowModel returns a model of four layers: full attention, a window of 40, chunks of 60 with ALiBi, and a
// window of 300. With a Batch of 64 their rings have 256, 256 and 512 rows.
func windowModel(t *testing.T) *model.Model {
	t.Helper()
	c := llmtest.TinyConfig(false)
	c.Heads, c.KVHeads, c.HeadSize, c.RoPE.Dims = 2, 1, 32, 32 // whole blocks of Q8_0
	usual := need.Value(arch.Resolve(c))(t)
	layers := make([]arch.Layer, 4)
	for i := range layers {
		layers[i] = slices.Clone(usual.Layers()[0])
		a := layers[i][0].Part.(arch.Attention)
		switch i {
		case 1:
			a.Window = 40
		case 2:
			a.Window, a.Chunked, a.MaxALiBiBias, a.NoRoPE = 60, true, 8, true
		case 3:
			a.Window = 300
		}
		layers[i][0].Part = a
	}
	c.Layers = len(layers)
	a := need.Value(arch.New(c, layers))(t)
	m := need.Value(model.NewOf(a, nil, 3))(t)
	t.Cleanup(func() { m.Close() })
	llmtest.RandomMatrices(t, m)
	return m
}

const windowContext = 1200

// windowOptions returns session options with ring caches, and with full caches.
func windowOptions() (ring, whole infer.SessionOptions) {
	ring = infer.SessionOptions{Context: windowContext, Batch: 64, Threads: 1}
	whole = ring
	whole.FullCache = true
	return ring, whole
}

// Overwriting keys outside of all windows does not change the results for long texts. Until the first
// key is overwritten, results are equal to the bit.
func TestWindowsDecode(t *testing.T) {
	m := windowModel(t)
	prompt := llmtest.RandomTokens(5, 100, m.Config().Vocab)
	for _, c := range []struct {
		cache  ggml.Type
		nmse   float64
		length int
	}{
		{ggml.F32, 1e-10, windowContext},
		{ggml.F16, 1e-4, 600}, // ggml sums in F16: another number of threads differs as much
		{ggml.Q8_0, 1e-6, 600},
	} {
		t.Run(c.cache.String(), func(t *testing.T) {
			ring, whole := windowOptions()
			ring.CacheType, whole.CacheType = c.cache, c.cache
			a, b := newSequence(t, m, ring), newSequence(t, m, whole)
			got, want := decode(t, a, prompt...), decode(t, b, prompt...)
			for a.Len() < c.length {
				if a.Len() <= 256 {
					require.Equal(t, want, got, "after %d tokens", a.Len())
				}
				require.Less(t, refmath.NMSE(got, want), c.nmse, "after %d tokens", a.Len())
				next := argmax(want)
				if c.cache != ggml.F16 {
					require.Equal(t, next, argmax(got))
				}
				got, want = decode(t, a, next), decode(t, b, next)
			}
		})
	}
}

// Prefill beyond the rings gives the same logits in passes of any length.
func TestWindowsPrefill(t *testing.T) {
	m := windowModel(t)
	tokens := llmtest.RandomTokens(5, 700, m.Config().Vocab)
	want := flat(t, newSequence(t, m, infer.SessionOptions{Context: windowContext, Batch: 700}), tokens) // nothing is overwritten
	for _, batch := range []int{1, 31, 256} {
		got := flat(t, newSequence(t, m, infer.SessionOptions{Context: windowContext, Batch: batch}), tokens)
		require.Less(t, refmath.NMSE(got, want), 1e-10, "passes of %d", batch)
	}
}

// A sequence is rewound without recomputation as far as its rings keep the windows, at least by the
// length of a pass. Rewinding further recomputes its tokens.
func TestWindowsRewind(t *testing.T) {
	m := windowModel(t)
	ring, whole := windowOptions()
	tokens := llmtest.RandomTokens(5, 600, m.Config().Vocab)
	q, all := newSequence(t, m, ring), newSequence(t, m, whole)
	for _, c := range []struct{ n, computed int }{
		{600, 600},
		{535, 535}, // back by more than a pass
		{387, 387}, // a query sees 300 keys, including its own; 512 of 600 are kept
		{386, 0},
		{1, 0},
		{0, 0},
	} {
		for _, q := range []*infer.Sequence{q, all} {
			_, err := q.Rewind(0)
			require.NoError(t, err)
			decode(t, q, tokens...)
			rewind(t, q, c.n)
		}
		require.Equal(t, c.computed, q.Computed(), "rewound to %d", c.n)
		require.Equal(t, c.n, all.Computed())
		require.Equal(t, tokens[:c.n], q.Tokens())
		require.Less(t, refmath.NMSE(decode(t, q, 7, 8), decode(t, all, 7, 8)), 1e-10, "rewound to %d", c.n)
		require.Equal(t, c.n+2, q.Computed())
	}

	// A decode that is cancelled beyond the rings leaves the tokens unchanged.
	for _, q := range []*infer.Sequence{q, all} {
		rewind(t, q, 0)
		decode(t, q, tokens[:300]...)
		cause := errors.New("enough")
		_, err := q.Decode(&cancelledLater{Context: context.Background(), passes: 4, cause: cause}, tokens)
		require.ErrorIs(t, err, cause)
		require.Equal(t, tokens[:300], q.Tokens())
	}
	require.Zero(t, q.Computed())
	_, cached, err := q.Prefill(&cancelledLater{Context: context.Background(), cause: context.Canceled}, tokens[:400])
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, cached)
	require.Equal(t, tokens[:300], q.Tokens(), "of a prompt that was not computed the beginning stays")
	_, err = q.Decode(&cancelledLater{Context: context.Background(), passes: 2, cause: context.Canceled}, []int32{7})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 128, q.Computed(), "what was computed again stays")
	require.Less(t, refmath.NMSE(decode(t, q, 7), decode(t, all, 7)), 1e-10)
}

// A sequence reuses the beginning of another one if that one's rings still have the keys that the next tokens see.
func TestWindowsPrefix(t *testing.T) {
	m := windowModel(t)
	ring, whole := windowOptions()
	ring.Sequences = 2
	tokens := llmtest.RandomTokens(5, 600, m.Config().Vocab)
	all := newSequence(t, m, whole)
	s := newSession(t, m, ring)
	other, q := addSequence(t, s), addSequence(t, s)
	for _, c := range []struct{ other, beginning, cached int }{
		{100, 50, 50},
		{100, 150, 100},
		{300, 280, 280},
		{600, 580, 580},
		{600, 400, 400},
		{600, 100, 0},
	} {
		_, _, err := other.Prefill(context.Background(), tokens[:c.other])
		require.NoError(t, err)
		rewind(t, q, 0)
		prompt := append(slices.Clone(tokens[:c.beginning]), 3, 4)
		got, cached, err := q.Prefill(context.Background(), prompt)
		require.NoError(t, err)
		require.Equal(t, c.cached, cached, c)
		rewind(t, all, 0)
		require.Less(t, refmath.NMSE(got, decode(t, all, prompt...)), 1e-10, c)
		require.Less(t, refmath.NMSE(decode(t, q, 5), decode(t, all, 5)), 1e-10, c)
		for _, q := range []*infer.Sequence{q, all} { // the copy lacks the rows that the other ring had lost
			rewind(t, q, c.beginning/4)
		}
		require.Less(t, refmath.NMSE(decode(t, q, 6), decode(t, all, 6)), 1e-10, c)
	}
}

// A token whose embedding is NaN spoils nothing after a rewind, also if it has overwritten rows of the
// ring.
func TestWindowsForgetNaN(t *testing.T) {
	m := windowModel(t)
	w := m.Weight("token_embd.weight")
	values := need.Value(ggml.Read[float32](w))(t)
	for i := range m.Config().Embd {
		values[95*m.Config().Embd+i] = float32(math.NaN())
	}
	require.NoError(t, ggml.Write(w, values))
	tokens := llmtest.RandomTokens(5, 400, 95)
	ring, whole := windowOptions()
	q, all := newSequence(t, m, ring), newSequence(t, m, whole)
	for _, n := range []int{3, 250, 300, 400} {
		rewind(t, q, 0)
		decode(t, q, tokens[:n]...)
		require.True(t, math.IsNaN(float64(decode(t, q, slices.Repeat([]int32{95}, 100)...)[0])))
		rewind(t, q, n)
		require.Equal(t, n, q.Computed())
		rewind(t, all, 0)
		decode(t, all, tokens[:n]...)
		more := llmtest.RandomTokens(6, 64, 95) // enough tokens that attention computes scores in tiles
		require.Less(t, refmath.NMSE(decode(t, q, more...), decode(t, all, more...)), 1e-10, n)
	}
}

// Ring caches give the logits of full caches after any history: random sequences begin (with shared
// beginnings or not), are stepped together or in part, are rewound, cancelled, and end.
func TestWindowsHistory(t *testing.T) {
	m := windowModel(t)
	ring, whole := windowOptions()
	ring.Sequences, whole.Sequences = 3, 3
	sessions := [2]*infer.Session{newSession(t, m, ring), newSession(t, m, whole)}
	known := llmtest.RandomTokens(5, 650, m.Config().Vocab)
	rapid.Check(t, func(r *rapid.T) {
		ctx := context.Background()
		var open [][2]*infer.Sequence
		same := func(got, want []float32) {
			require.Less(r, refmath.NMSE(got, want), 1e-10)
			require.Equal(r, argmax(want), argmax(got))
		}
		defer func() {
			for _, both := range open {
				require.NoError(r, both[0].Close())
				require.NoError(r, both[1].Close())
			}
		}()
		for range rapid.IntRange(1, 8).Draw(r, "actions") {
			action := rapid.IntRange(0, 6).Draw(r, "action")
			if len(open) == 0 || action == 0 && len(open) < 3 {
				var both [2]*infer.Sequence
				for i, s := range sessions {
					both[i] = need.Value(s.NewSequence())(r)
				}
				open = append(open, both)
				action = 1
			}
			i := rapid.IntRange(0, len(open)-1).Draw(r, "sequence")
			both := open[i]
			var logits [2][]float32
			switch length := both[0].Len(); action {
			case 0, 1:
				end := rapid.SliceOfN(rapid.Int32Range(0, 90), 1, 40).Draw(r, "end")
				tokens := append(slices.Clone(known[:rapid.IntRange(0, len(known)).Draw(r, "beginning")]), end...)
				for i, q := range both {
					var err error
					logits[i], _, err = q.Prefill(ctx, tokens)
					require.NoError(r, err)
				}
				same(logits[0], logits[1])
			case 2:
				tokens := rapid.SliceOfN(rapid.Int32Range(0, 90), 1, 80).Draw(r, "tokens")
				if length+len(tokens) > windowContext {
					continue
				}
				for i, q := range both {
					logits[i] = need.Value(q.Decode(ctx, tokens))(r)
				}
				same(logits[0], logits[1])
			case 3:
				n := max(0, length-rapid.IntRange(0, 300).Draw(r, "back"))
				for _, q := range both {
					rewind(r, q, n)
				}
			case 4:
				const tokens = 400 // more than 5 passes
				if length+tokens > windowContext {
					continue
				}
				passes := rapid.IntRange(0, 5).Draw(r, "passes")
				for _, q := range both {
					_, err := q.Decode(&cancelledLater{Context: ctx, passes: passes, cause: context.Canceled}, known[:tokens])
					require.Error(r, err)
				}
			case 5:
				require.NoError(r, both[0].Close())
				require.NoError(r, both[1].Close())
				open = slices.Delete(open, i, i+1)
				continue
			case 6:
				var next [2][]infer.StepInput
				for _, both := range rapid.Permutation(open).Draw(r, "order")[:rapid.IntRange(1, len(open)).Draw(r, "some")] {
					if both[0].Len() == windowContext {
						continue
					}
					for i, q := range both {
						next[i] = append(next[i], infer.StepInput{Sequence: q, Token: 7})
					}
				}
				if len(next[0]) == 0 {
					continue
				}
				for i, s := range sessions {
					require.NoError(r, s.Step(ctx, next[i]))
				}
				for i := range next[0] {
					same(next[0][i].Logits, next[1][i].Logits)
				}
			}
			require.Equal(r, both[1].Tokens(), both[0].Tokens())
		}
	})
}

// Architectures with windows decode beyond them as with full caches, with sinks, softcaps and
// adapters.
func TestWindowsOfArchitectures(t *testing.T) {
	for _, name := range []string{"gemma2", "gemma3", "gpt-oss", "cohere2", "plamo3"} {
		t.Run(name, func(t *testing.T) {
			m := llmtest.ArchModel(t, name, ggml.F32)
			s := llmtest.NewLoRASetup(t, m, 3, 0.75)
			ring, whole := windowOptions()
			ring.Adapters, whole.Adapters = s.Adapters, s.Adapters
			tokens := llmtest.RandomTokens(5, 330, m.Config().Vocab)
			a, b := newSequence(t, m, ring), newSequence(t, m, whole)
			require.Less(t, refmath.NMSE(flat(t, a, tokens), flat(t, b, tokens)), 1e-10)
			for range 20 {
				require.Less(t, refmath.NMSE(decode(t, a, 7), decode(t, b, 7)), 1e-10)
			}
		})
	}
}

// Layers with a window need memory in proportion to the window.
func TestWindowsMemory(t *testing.T) {
	m := windowModel(t)
	ring, whole := windowOptions()
	const row = 2 * 32 * 4 // key and value in F32
	for _, sequences := range []int{1, 3} {
		ring.Sequences, whole.Sequences = sequences, sequences
		require.EqualValues(t, sequences*row*(windowContext+256+256+512), newSession(t, m, ring).Memory().Total(), fmt.Sprint(sequences))
		require.EqualValues(t, sequences*row*4*windowContext, newSession(t, m, whole).Memory().Total())
	}
	require.Nil(t, (*infer.Session)(nil).Memory())
	require.Nil(t, (&infer.Session{}).Memory())
}

// BenchmarkWindows compares ring caches with full caches by the layers of gemma3 1B, five of six of which have a
// window, after a text longer than it.
func BenchmarkWindows(b *testing.B) {
	c := benchmodel.Gemma3()
	c.Vocab, c.Context, c.RoPE.TrainedCtx = 8192, 32768, 32768
	path := filepath.Join(b.TempDir(), "gemma3.gguf")
	require.NoError(b, benchmodel.Write(path, c, ggml.Q4_0))
	m := need.Value(model.Load(path, model.LoadOptions{Repack: true}))(b)
	b.Cleanup(func() { m.Close() })
	const past, steps = 4096, 16
	o := infer.SessionOptions{CacheType: ggml.F16}
	var samplers []func() time.Duration
	for _, o.FullCache = range []bool{false, true} {
		q := newSequence(b, m, o)
		decode(b, q, llmtest.RandomTokens(1, past, c.Vocab)...)
		b.Logf("all %v: %d bytes of keys and values", o.FullCache, q.Session().Memory().Total())
		samplers = append(samplers, func() time.Duration {
			began := time.Now()
			for range steps {
				decode(b, q, 7)
			}
			return time.Since(began)
		})
	}
	testutil.Once(b, func() {
		turns := testutil.InTurn(testutil.Rounds(), 0, samplers...)
		b.ReportMetric(steps/turns.Median(0).Seconds(), "tokens/s")
		b.ReportMetric(turns.Ratio(1, 0), "ratio")
	})
}
