package train_test

import (
	"fmt"
	"testing"

	"github.com/goggml/ggml"
)

// LoRA steps of rank 8. tokens/s is that of the fastest step, GFLOP/s counts
// 4 for each parameter and token.
func BenchmarkStep(b *testing.B) {
	for _, r := range []stepRun{
		{Model: "small", Type: ggml.F32, Length: 256, Batch: 2},
		{Model: "small", Type: ggml.F16, Length: 256, Batch: 2},
		{Model: "small", Type: ggml.Q8_0, Length: 256, Batch: 2},
		{Model: "small", Type: ggml.Q4_0, Length: 256, Batch: 2},
		{Model: "large", Type: ggml.Q8_0, Length: 512, Batch: 1},
		{Model: "large", Type: ggml.Q4_K, Length: 512, Batch: 1},
	} {
		r.Rank = 8
		for _, products := range []ggml.Type{ggml.F32, ggml.BF16} {
			for _, checkpointing := range []bool{false, true} {
				r.Products, r.Checkpointing = products, checkpointing
				name := fmt.Sprintf("%s/%v/%v", r.Model, r.Type, products)
				if checkpointing {
					name += "/checkpointing"
				}
				b.Run(name, func(b *testing.B) { benchmarkStep(b, r) })
			}
		}
	}
}

func benchmarkStep(b *testing.B, r stepRun) {
	if r.Products == ggml.BF16 && !ggml.TiledBF16() {
		b.Skip("no instructions for BF16")
	}
	var best stepResult
	for b.Loop() {
		r.Steps = 3
		got := runSteps(b, r)
		if got.TokensPerSec > best.TokensPerSec {
			best = got
		}
	}
	b.ReportMetric(best.TokensPerSec, "tokens/s")
	b.ReportMetric(best.TokensPerSec*4*float64(best.Parameters)/1e9, "GFLOP/s")
	b.ReportMetric(best.PeakMB, "MB-peak")
	b.ReportMetric(0, "ns/op")
}
