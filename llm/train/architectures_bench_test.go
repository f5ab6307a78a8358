package train_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/benchmodel"
	"github.com/goggml/ggml/internal/testutil"
	"github.com/goggml/ggml/kernels"
)

// BenchmarkArchitecture takes steps of other architectures and of llama in turn, on
// shapes of about a billion parameters: their ratio is that of the FLOP/s, which of mixtures
// count the active ones.
func BenchmarkArchitecture(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes")
	}
	const base = ggml.Q8_0
	run := scalingRun{Context: 512, Batch: 1, Rank: 8, Threads: runtime.NumCPU(), ComputeType: kernels.FastestType()}
	llama := benchmodel.Large()
	for _, c := range benchmodel.Others() {
		b.Run(fmt.Sprintf("model=%s/base=%v", c.Name, base), func(b *testing.B) {
			ours, theirs := run.on(b, c, base), run.on(b, llama, base)
			_, budget := testutil.BenchTime(b)
			testutil.Once(b, func() {
				other, reference := startSteps(b, trainSteps, ours), startSteps(b, trainSteps, theirs)
				turns := testutil.InTurn(testutil.Rounds(), budget, reference.sample, other.sample)
				other.report(b, turns.Median(1), c)
				b.ReportMetric(turns.Ratio(0, 1)*other.flops(c)/reference.flops(llama), "×llama")
			})
		})
	}
}
