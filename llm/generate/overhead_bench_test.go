package generate_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
)

// The part of generating a token that is not the computation of its graph.
func BenchmarkOverhead(b *testing.B) {
	s := settings(b)
	for _, t := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K} {
		b.Run("of=generation/model="+s.shape+"/base="+t.String(), func(b *testing.B) {
			session := s.session(b, s.load(b, s.file(b, t)), model.SessionOptions{})
			pick, err := sample.New(sample.Options{TopK: 40, TopP: 0.95, Temperature: 0.8})
			require.NoError(b, err)
			session.decode(1)
			tokens, computed := 0, testhook.Computed()
			start := time.Now()
			for b.Loop() {
				token, err := pick.Sample(session.logits)
				require.NoError(b, err)
				if session.s.Pos() == session.s.Context() {
					require.NoError(b, session.s.Truncate(0))
				}
				require.NoError(b, session.s.DecodeInto(context.Background(), session.logits, []int32{token}))
				tokens++
			}
			took := time.Since(start)
			computed = testhook.Computed() - computed
			b.ReportMetric(float64(tokens)/took.Seconds(), "tok/s")
			b.ReportMetric(100*(took-computed).Seconds()/computed.Seconds(), "overhead-%")
			b.ReportMetric(0, "ns/op")
		})
	}
}
