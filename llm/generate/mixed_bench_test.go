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

// BenchmarkMixedAdapters compares a step of eight sequences: with the session's adapter, with an adapter each in one pass,
// and with an adapter each in a pass each.
func BenchmarkMixedAdapters(b *testing.B) {
	const count = 8
	s := settings(b)
	m := s.load(b, s.file(b, ggml.Q4_K))
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
		return func() time.Duration {
			began := s.now()
			for _, p := range passes {
				require.NoError(b, session.Step(context.Background(), p))
			}
			return s.now() - began
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
	plainSample := func(p []infer.StepInput) func() time.Duration {
		return func() time.Duration {
			began := s.now()
			require.NoError(b, plain.Step(context.Background(), p))
			return s.now() - began
		}
	}
	turns := testutil.InTurn(rounds, budget, sample(same), sample(mixed), sample(each...), plainSample(none), plainSample(none[:1]))
	for i, name := range []string{"one-adapter-ms", "one-pass-ms", "pass-each-ms", "plain8-ms", "plain1-ms"} {
		b.ReportMetric(slices.Min(turns[i]).Seconds()*1000, name)
	}
	b.ReportMetric(0, "ns/op")
}
