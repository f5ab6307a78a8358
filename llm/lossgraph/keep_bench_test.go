package lossgraph_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// Measures the processor time of a step of one thread against its memory: results of layers of the shape of 1.1 billion
// parameters that are kept, from none to all, in turn.
func BenchmarkKeptResults(b *testing.B) {
	need.Time(b, "takes minutes")
	const points = 7
	for _, k := range []struct{ layers, length int }{{4, 512}, {2, 4096}} {
		b.Run(fmt.Sprintf("layers=%d/context=%d", k.layers, k.length), func(b *testing.B) {
			c := benchmodel.Large()
			c.Layers = k.layers
			m := need.Value(model.Load(need.Value(benchmodel.File(b.TempDir(), c.Name, c, ggml.Q8_0))(b), model.LoadOptions{}))(b)
			defer m.Close()
			s, e := llmtest.NewLoRASetup(b, m, 8, 1), need.Value(device.NewCPU(1))(b)
			defer e.Close()
			batch := llmtest.NewBatch(c.Vocab, k.length)
			batch = lossgraph.Batch{Tokens: batch.Tokens[:k.length], Targets: batch.Targets[:k.length]}
			o := lossgraph.Options{Length: k.length, Batch: 1, Checkpoint: true, ComputeType: kernels.FastestType()}
			none := s.NewGraph(b, e, o)
			sums := none.Recomputed()
			all := sums[len(sums)-1]
			graphs := make([]*lossgraph.Graph, points)
			samplers := make([]func() time.Duration, points)
			for i := range graphs {
				o.Keep = all * int64(i) / (points - 1)
				graphs[i] = s.NewGraph(b, e, o)
				samplers[i] = func() time.Duration {
					began := testutil.ProcessorTime()
					_, err := graphs[i].Compute(context.Background(), batch)
					require.NoError(b, err)
					return testutil.ProcessorTime() - began
				}
			}
			testutil.Once(b, func() {
				turns := testutil.InTurn(testutil.Rounds(), 0, samplers...)
				for i, g := range graphs {
					memory := g.Memory().Total() >> 20
					b.Logf("%d MiB: %.2f s, %.2f of the fastest, %.0f %% recomputed", memory, turns.Median(i).Seconds(), turns.Ratio(i, points-1), 100*g.RecomputedShare())
				}
			})
		})
	}
}
