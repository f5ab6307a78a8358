package generate_test

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/infer"
)

// BenchmarkMixedAdapters compares a step of eight sequences, by a token or a short prompt: with the session's adapter, with an
// adapter each in one pass, with an adapter each in a pass each, and without adapters, also of one sequence.
func BenchmarkMixedAdapters(b *testing.B) {
	for _, tokens := range []int{1, 32} {
		b.Run(strconv.Itoa(tokens), func(b *testing.B) { benchmarkMixed(b, make([]int32, tokens-1)) })
	}
}

func benchmarkMixed(b *testing.B, before []int32) {
	const count = 8
	s := settings(b)
	m := s.load(b, s.file(b, ggml.Q4_K), 1)
	own := makeAdapter(b, m, filepath.Join(b.TempDir(), "own.gguf"), ggml.F32)
	session := need.Value(infer.NewSession(m, infer.SessionOptions{
		Sequences: 2 * count, Context: 1024, Threads: s.threads, CacheType: ggml.F16, Adapters: own,
	}))(b)
	defer session.Close()
	same, mixed := make([]infer.StepInput, count), make([]infer.StepInput, count)
	for i := range same {
		same[i].Sequence = need.Value(session.NewSequence())(b)
	}
	for i := range mixed {
		mixed[i].Sequence = need.Value(session.NewSequence())(b)
		if i > 0 {
			a := makeAdapter(b, m, filepath.Join(b.TempDir(), strconv.Itoa(i)+".gguf"), ggml.F32)
			require.NoError(b, mixed[i].Sequence.SetAdapters(need.Value(session.NewAdapters(a))(b)))
		}
	}
	sample := func(passes ...[]infer.StepInput) func() time.Duration {
		for _, p := range passes {
			for i := range p {
				p[i].Before = before
			}
		}
		return func() time.Duration {
			began := s.now()
			for _, p := range passes {
				require.NoError(b, p[0].Sequence.Session().Step(context.Background(), p))
			}
			took := s.now() - began
			for _, n := range slices.Concat(passes...) {
				_, err := n.Sequence.Rewind(0)
				require.NoError(b, err)
			}
			return took
		}
	}
	var each [][]infer.StepInput
	for i := range mixed {
		each = append(each, mixed[i:i+1])
	}
	rounds, budget := testutil.BenchTime(b)
	plain := need.Value(infer.NewSession(m, infer.SessionOptions{Sequences: count, Context: 1024, Threads: s.threads, CacheType: ggml.F16}))(b)
	defer plain.Close()
	none := make([]infer.StepInput, count)
	for i := range none {
		none[i].Sequence = need.Value(plain.NewSequence())(b)
	}
	turns := testutil.InTurn(rounds, budget, sample(same), sample(mixed), sample(each...), sample(none), sample(none[:1]))
	for i, name := range []string{"one-adapter-ms", "one-pass-ms", "pass-each-ms", "plain8-ms", "plain1-ms"} {
		b.ReportMetric(slices.Min(turns[i]).Seconds()*1000, name)
	}
	b.ReportMetric(0, "ns/op")
}
