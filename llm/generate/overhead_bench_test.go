package generate_test

import (
	"context"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/sample"
)

// BenchmarkOverhead measures the part of generating a token outside of the computation of its graph.
func BenchmarkOverhead(b *testing.B) {
	s := settings(b)
	for _, t := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K} {
		b.Run("of=generation/model="+s.shape+"/base="+t.String(), func(b *testing.B) {
			session := s.session(b, s.load(b, s.file(b, t), 1), infer.SessionOptions{})
			pick := need.Value(sample.New(sample.Options{TopK: 40, TopP: testutil.Ptr[float32](0.95), Temperature: 0.8}))(b)
			session.decode(1)
			testutil.Overhead(b, 1, func() error {
				token := need.Value(pick.Sample(session.logits))(b)
				if session.q.Len() == session.q.Context() {
					session.rewind()
				}
				return session.q.DecodeInto(context.Background(), session.logits, []int32{token})
			})
		})
	}
}
